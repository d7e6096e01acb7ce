"""Words of English, as data."""
