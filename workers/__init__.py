"""How one page and one batch are captured, merged, serialized, stored and replayed."""
