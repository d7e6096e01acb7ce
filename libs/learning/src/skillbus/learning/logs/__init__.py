"""Learning from logs: records, templates, incidents and configuration facts."""
