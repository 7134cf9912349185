"""Reading people's files as they are: which files, of which format, as passages and questions."""
