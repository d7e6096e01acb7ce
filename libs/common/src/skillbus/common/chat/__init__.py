"""Chat models for services: questions with structured answers, asked over the bus."""
