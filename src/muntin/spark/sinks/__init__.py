"""Where results and rejected messages go."""
