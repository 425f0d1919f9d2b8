"""One program for each peer; each runs in a virtual environment of its own."""
