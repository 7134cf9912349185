"""Keeping an index fresh: the changes of a corpus, the index made from the old one, the gate, and the champion."""
