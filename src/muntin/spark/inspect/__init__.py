"""Running queries and their checkpoints, seen from outside."""
