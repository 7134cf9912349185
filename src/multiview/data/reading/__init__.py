"""Reading of the user's files as they are: which files, their formats, their passages and questions."""
