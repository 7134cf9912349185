"""Analyses of a trained model: its views, the views that answer, and the questions that fail.

Each family of analyses has one file: small functions over arrays, and a function that gathers the arrays of a
`AnalysisInput` and returns `Findings`. `run.py` has the table of all analyses. No analysis depends on an architecture's name.
"""
