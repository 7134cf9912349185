"""Hard negatives: from BM25, mined with a model, and the filters that both use."""
