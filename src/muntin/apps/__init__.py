"""Applications that muntin shows: the flights, the windowing application, and their pages."""
