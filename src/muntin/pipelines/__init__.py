"""Pipeline files in SQL or TOML, both read into the value that hosts start."""
