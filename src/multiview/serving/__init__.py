"""Answering questions from an index."""
