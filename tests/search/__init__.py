"""A search for queries of which two doors say different things, for as long as there is time.

``python -m tests.search --minutes 30`` (or ``make search ARGS=--minutes=30``) draws queries and
messages out of the whole model, runs them through all doors, and holds each against the oracle.
What differs is made as small as it can be and printed as a transcript, which belongs into
``tests/transcripts``: there it runs through every door from then on.

- ``subjects``: what is drawn, and what is held against what;
- ``finding``: how one round looks, and makes what it finds small;
- ``rounds``: one round after another until the time is over, and what is said about it.
"""
