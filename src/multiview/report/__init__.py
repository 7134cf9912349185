"""The report: one page about a comparison, which needs nothing but itself."""
