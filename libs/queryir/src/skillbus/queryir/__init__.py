"""Reads spoken commands as QueryIR: pure functions of a sentence and a home, without a bus or a model."""
