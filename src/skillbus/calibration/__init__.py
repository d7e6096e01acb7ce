"""Fits the map from cosine and words to a score, for one embedding model, on tools and requests that people judged."""
