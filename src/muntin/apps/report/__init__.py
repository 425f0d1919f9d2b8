"""The page that shows what windows made of the flights: one HTML file that loads nothing else."""
