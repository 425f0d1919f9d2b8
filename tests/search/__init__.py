"""A search for queries on which two runners differ, for as long as there is time.

``python -m tests.search --minutes 30`` (or ``make search ARGS=--minutes=30``) draws queries and
messages from the whole model, runs them on all runners, and compares each with the oracle. It
shrinks a difference and prints it as a transcript, which belongs into ``tests/transcripts``: there
it runs on every runner from then on.

- ``subjects``: draws cases, and compares runners;
- ``finding``: runs the cases of one round, and shrinks the first failing one;
- ``rounds``: runs rounds until the time is over, and prints the findings.
"""
