"""Pipeline files: SQL and TOML, both read into the one value that Spark's door starts."""
