"""The demo's corpus, made here."""
