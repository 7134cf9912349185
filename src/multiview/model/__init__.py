"""The encoder, the layouts that say what its views are, and the losses."""
