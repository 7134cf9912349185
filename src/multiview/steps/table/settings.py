"""Settings that several steps read together."""

from __future__ import annotations

PAIRS = ("generation.input", "generation.max_length")
"""Settings of the query generator's input, and of the length of its queries."""

SAMPLING = tuple(f"generation.{name}" for name in ("queries", "batch_size", "seed", "device"))
"""Settings of the generator's drawing."""

MATCHING = ("questions.answer_matching", "corpus.language")
"""Settings by which an answer is found in a text."""
