"""Hard negatives: BM25's, mined ones, and the filters between."""
