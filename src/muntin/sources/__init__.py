"""Sources: streams of messages in columns, without Spark."""
