"""A search for queries on which two runners differ, for as long as there is time.

``python -m tests.search --minutes 30`` (or ``make search ARGS=--minutes=30``) draws queries and
messages out of the whole model, runs them on all runners, and compares each with the oracle.
A difference is made as small as it can be and printed as a transcript, which belongs into
``tests/transcripts``: there it runs on every runner from then on.

- ``subjects``: what is drawn, and what is held against what;
- ``finding``: how one round looks, and makes what it finds small;
- ``rounds``: one round after another until the time is over, and what is said about it.
"""
