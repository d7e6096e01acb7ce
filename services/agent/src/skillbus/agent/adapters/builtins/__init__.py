"""What builtin tools work on."""
