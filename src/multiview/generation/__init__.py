"""Generated queries and training questions: the models that write them, their training and their prompt."""
