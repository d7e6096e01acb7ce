"""Tools as the gateway and the agent both show them: names of functions, and files of skills."""
