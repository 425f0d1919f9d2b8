"""Tests of the summaries of Spark's errors."""

from __future__ import annotations

from muntin.cli.console import summarize_error

IN_A_BATCH = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach \
batch sink. Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most \
recent call last):
  File "/x/pyspark/errors/exceptions/captured.py", line 262, in deco
    raise converted from None
pyspark.errors.exceptions.captured.NumberFormatException: [CAST_INVALID_INPUT] The value 'a' of \
the type "STRING" cannot be cast to "INT". Use `try_cast` to tolerate it. SQLSTATE: 22018
== SQL (line 1, position 1) ==
cast(k as int) AS k
^^^^^^^^^^^^^^

 SQLSTATE: 39000"""


def test_the_cause_within_a_batch_comes_first() -> None:
    assert summarize_error(Exception(IN_A_BATCH)) == (
        '[CAST_INVALID_INPUT] The value \'a\' of the type "STRING" cannot be cast to "INT". Use '
        "`try_cast` to tolerate it."
    )
