"""The bi-encoder, the layouts that define its views, and the losses."""
