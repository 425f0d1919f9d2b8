"""A deterministic simulator of the hosts: one seed decides everything that happens to a query."""
