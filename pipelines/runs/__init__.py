"""Runs of plans: their identity, execution on this machine, reruns, studies, and display."""
