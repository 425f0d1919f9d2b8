"""The page that shows what windows made of the flights: one HTML file, asking nobody for more."""
