"""The entrances `windowed` and `join`: one signature for every kind of input and host."""
