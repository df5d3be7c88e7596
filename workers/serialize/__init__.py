"""Page tree -> the texts that agents read; one module each."""
