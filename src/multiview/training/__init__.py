"""Training of the encoder: its data and batches, its processes, the trainer, and validation."""
