"""Analyses of a trained model, listed in `run.py`: functions that turn an `AnalysisInput` into `Findings`. None depends
on an architecture's name."""
