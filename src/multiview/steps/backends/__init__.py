"""Backends of a step's work: this process, a fork, or several nodes."""
