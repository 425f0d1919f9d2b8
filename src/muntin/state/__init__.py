"""The stored state: frames as bytes, tables of runs, offsets, and the assignment of shards."""
