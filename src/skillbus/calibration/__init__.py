"""Calibration: fits a model's map from cosine and words to a score, on tools and requests with known relevance."""
