"""Measures how well spoken commands are understood, and how well commands of a library are found."""
