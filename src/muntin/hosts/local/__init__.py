"""The local host runs a query in this process, without Spark."""
