"""Approximate indexes, which do not read every view: faiss finds candidates; their stored views are scored exactly."""
