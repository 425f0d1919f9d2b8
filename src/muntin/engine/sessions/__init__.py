"""Sessions, which are built before the shuffle and merged after it."""
