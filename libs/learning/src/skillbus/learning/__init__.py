"""Extracts knowledge from logs, traffic and test runs: pure functions of files, without a bus, database or model."""
