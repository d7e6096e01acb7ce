"""What crosses the bus of skillbus. Depends on pydantic and nothing else.

One module per owner: subject, request, reply and errors of each request together, and the facts it publishes.
`catalogue` lists them all.
"""
