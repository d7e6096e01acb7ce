"""Messages that cross the bus of skillbus. Needs pydantic and nothing else.

Each service has a folder: the subject, request, reply and errors of each of its requests, and the events it publishes.
`catalogue` lists all of them; `http` holds the replies of the REST API.
"""
