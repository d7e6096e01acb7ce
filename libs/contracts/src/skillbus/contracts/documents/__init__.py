"""The contracts as documents, made from the catalogue: a page for people, AsyncAPI for tools, schemas for tests.

`python -m skillbus.contracts.documents` writes them into a checkout; a test fails when they differ from the code.
"""
