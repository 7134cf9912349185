"""What users run on a GPU, beside its peers and the card's bounds: encoding, training, exact search (docs/performance.md)."""
