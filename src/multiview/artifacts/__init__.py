"""The store: artifacts, their records, and the champions among them."""
