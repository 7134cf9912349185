"""Pipelines as plain data: their steps and what flows between them."""
