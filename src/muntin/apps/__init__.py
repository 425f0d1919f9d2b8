"""Demonstration applications: the flights, the windowing application, and their pages."""
