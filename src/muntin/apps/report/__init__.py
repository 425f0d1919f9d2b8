"""The pages about the flights: self-contained HTML files."""
