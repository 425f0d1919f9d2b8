"""The command line: ``muntin run`` and ``muntin demo``."""
