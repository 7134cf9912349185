"""Analyses of a trained model: what its views are, which of them answer, and where it fails.

One file a family: small functions over arrays, and one function that gathers the arrays of a `Subject`
and returns `Findings`. `run.py` is the table of them. None asks for an architecture's name.
"""
