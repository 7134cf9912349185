"""The command line `multiview`: everything but running pipelines, such as search, lineage and garbage collection."""
