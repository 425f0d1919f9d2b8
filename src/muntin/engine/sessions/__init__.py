"""Sessions: made before the shuffle, merged behind it."""
