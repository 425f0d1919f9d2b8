"""Every touch of what Spark has no interface for, by topic; written for Spark 4.3.

Nothing else in the package calls the JVM, reads plans, or knows how a checkpoint's files lie: what
a version of Spark has otherwise is to be adapted here (``versions``: what 4.1 hasn't got).
"""
