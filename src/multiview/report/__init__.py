"""Reports: one self-contained page about a comparison, and one about a refresh."""
