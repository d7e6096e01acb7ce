"""Tools that the agent has itself."""
