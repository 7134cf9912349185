"""Keeping an index fresh: what has changed, the index made from the old one, the gate, and the champion."""
