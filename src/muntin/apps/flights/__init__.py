"""The flights of New York in 2013, replayed in the order in which they became known."""
