"""Backends of a step's work: this process, or several nodes."""
