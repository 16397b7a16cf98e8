"""Other people's tables, recomputed: which of their printed numbers follow from the others."""
