"""Generated queries: the models that write them, their training and their evaluation."""
