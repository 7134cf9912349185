"""Refreshing an index: what changed in the corpus, and the new index made of the old one."""
