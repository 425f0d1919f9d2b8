"""Applications: the windowing application."""
