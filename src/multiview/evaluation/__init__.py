"""Metrics, rankings, comparisons and tests of significance."""
