"""Admission of requests: how many are worked on at once, who comes next, and which are refused at once."""
