"""Everything that is kept: frames as bytes, tables of runs, offsets, and which shard owns a key."""
