"""Base models: where they are, which content they have, and how transformers loads them."""
