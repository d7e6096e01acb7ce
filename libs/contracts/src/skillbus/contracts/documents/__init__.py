"""Documents generated from the catalogue: a page for people, AsyncAPI for tools, JSON Schemas for tests.

`python -m skillbus.contracts.documents` writes them into a checkout. A test fails if they differ from the code.
"""
