"""Generated queries: models that write them, and what they are worth."""
