"""Multi-view dense retrieval: CAMVR, MVR, the Dual Cross Encoder and their baselines."""

__version__ = "0.1.0"
