"""The `skillbus` command: everything in one process (`up`, `demo`), and a client of the HTTP API (all the others)."""
