"""Windows of fixed places, windows by count, and sliding ones."""
