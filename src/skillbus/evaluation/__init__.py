"""Evaluation: measures the quality of tool and knowledge search on judged cases."""
