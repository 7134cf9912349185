"""Runs: described before they start, cut out of earlier ones, executed on this machine, and shown."""
