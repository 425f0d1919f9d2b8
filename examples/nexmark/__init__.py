"""Nexmark, an auction house: its events, and its windowed queries in muntin."""
