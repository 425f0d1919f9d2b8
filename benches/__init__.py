"""Side-by-side benchmarks of muntin and its peers, on streams every engine can compute."""
