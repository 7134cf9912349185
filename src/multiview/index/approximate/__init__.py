"""Indexes that do not look at every view: faiss finds candidates, whose stored views are then scored exactly."""
