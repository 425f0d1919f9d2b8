"""State of a query read from outside, whichever host runs it."""
