"""Analyses of a trained model, of which `run.py` has the table: functions of an `AnalysisInput` that return `Findings`. None
depends on an architecture's name."""
