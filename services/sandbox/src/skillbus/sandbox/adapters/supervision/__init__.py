"""The host's side of a run, whatever engine isolates it: checks before it, its protocol, its output and outcome."""
