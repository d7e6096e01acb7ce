"""The audit log: facts about administrative acts, in a stream that only grows (ADR 0028)."""
