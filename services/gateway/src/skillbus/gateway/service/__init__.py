"""Handlers of the routes: each decodes a request, makes one call of the domain, and encodes the reply."""
