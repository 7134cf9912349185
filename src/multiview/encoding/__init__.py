"""Encoding of passages and questions into vectors, and the format of embeddings."""
