"""Passages and questions to vectors, and the embeddings that hold them."""
