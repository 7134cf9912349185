"""Estimates of a plan before it runs: time, GPUs, memory and disk of each step."""
