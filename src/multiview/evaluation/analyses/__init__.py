"""Analyses of a trained model: what its views are, which views answer, and where the model fails.

Each family of analyses has one file: small functions over arrays, and a function that gathers the arrays of a
`Subject` and returns `Findings`. `run.py` has the table of all analyses. No analysis depends on an architecture's name.
"""
