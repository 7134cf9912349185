"""Training the encoder."""
