"""Pipelines on Kubeflow: compiled, submitted, followed, scheduled."""
