"""Words of an English sentence, and the role of each."""
