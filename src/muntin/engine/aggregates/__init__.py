"""What aggregates are in columns."""
