"""The lineage of artifacts, and the collection of artifacts that nothing needs any more."""
