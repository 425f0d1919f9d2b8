"""Windows over panes, windows by count, and sliding windows."""
