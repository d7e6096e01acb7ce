"""The host's side of a run, for every engine: checks before it, its protocol, its output and outcome."""
