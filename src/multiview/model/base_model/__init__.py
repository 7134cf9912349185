"""Base models: where they are, how their content is checked, and how transformers loads them."""
