"""Records -> rows -> text."""
