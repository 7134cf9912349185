"""Reading of the user's files: their formats, their passages and questions."""
