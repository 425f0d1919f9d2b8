"""What runs an operator on Spark: tasks before the shuffle, processors behind it, and the plan."""
