"""All uses of Spark's internals, by topic; written for Spark 4.3.

No other package of muntin calls the JVM, reads plans, or depends on the layout of a checkpoint's
files. Adapt differences between versions of Spark here (``versions`` has those of 4.1).
"""
