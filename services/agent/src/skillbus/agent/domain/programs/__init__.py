"""Programs of the tool `run_code`, and the tool calls that they make."""
