"""What a step is, and how one is done."""
