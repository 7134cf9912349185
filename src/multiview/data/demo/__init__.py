"""The corpus of the demo, generated from phrases."""
