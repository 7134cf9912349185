"""A worked example of an architecture: two vectors a passage, one for each half of its text."""

from collections.abc import Sequence
from dataclasses import replace

from multiview.data.passages import Passage
from multiview.model.layouts import Layout, TokenSequence


class Halves(Layout):
    """`[CLS] title [SEP] half [SEP]` for each half of the text, cut after the sentence that reaches its middle.

    The view of a half is its `[CLS]`. A text of one sentence has one half.
    """

    name = "halves"
    defaults = {"train": {"positive": "answer"}}
    has_spans = True

    @property
    def max_views(self) -> int:
        return 1  # a sequence; a passage has two sequences

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        length = len(passage.text)
        middle = next((end for end in passage.sentence_ends if 2 * end >= length), length)
        spans = [(0, middle)] + ([(middle, length)] if middle < length else [])
        sequences = []
        for start, stop in spans:
            half = replace(passage, text=passage.text[start:stop])
            ids = [self._cls, *self._title_and_text(half, self.settings.passage_length - 1)]
            sequences.append(TokenSequence(ids, (self._whole(len(ids), (start, stop)),)))
        return sequences
