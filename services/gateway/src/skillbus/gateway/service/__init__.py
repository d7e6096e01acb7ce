"""The handlers: decode, one call, encode."""
