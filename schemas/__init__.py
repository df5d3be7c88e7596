"""The contract: records, messages, Arrow schemas, keys and outcomes, without any input or output."""
