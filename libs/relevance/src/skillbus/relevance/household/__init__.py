"""Meanings of the words of spoken commands: actions with their opposites, and topics, in Chinese and English."""
