"""Pages by section of the navigation."""
