"""Sources of messages on Spark."""
