"""Causes of failed tests, flaky tests and fixes, learned from the reports of test runs."""
