"""The baselines of MVR 5.1: a passage is cut into parts, and each part is a separate sequence."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise

from multiview.data.passages import Passage
from multiview.data.tokens import Span
from multiview.model.layouts.base import Layout, Part, TokenSequence

WORD = re.compile(r"\S+")


class Parts(Layout):
    """`[CLS] prompt title [SEP] part [SEP]` per part of the text; the view is its `[CLS]`.

    The title is put before every part, as DPR puts it before every passage (ours; MVR does not say). In training each
    part of the positive that holds an answer is a separate positive, and each part of a negative is a separate
    negative. Only a search takes the best part (MVR 5.1).
    """

    defaults = {"train": {"positive": "each"}}
    has_spans = True

    @abstractmethod
    def spans(self, passage: Passage) -> list[Span]:
        """Returns the spans of the parts in code points, at least one; they partition the text."""

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        spans = self.spans(passage)
        prompt, texts = self.passage_prompt, [passage.text[start:stop] for start, stop in spans]
        if passage.title.strip():
            (title,), parts = self._tokens([prompt + passage.title]), self._cut_tokens(texts)
            head = [*self._first, *title, self._sep] if title else self._first
        else:
            begin, *parts = self._cut_tokens([prompt, *texts])
            head = [*self._first, *begin]
        sequences = []
        for span, part in zip(spans, parts, strict=True):
            ids = [*[*head, *part][: self.settings.passage_length - 1], self._sep]
            sequences.append(TokenSequence(ids, (self._whole(len(ids), span),)))
        return sequences

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        return [Part(span) for span in self.spans(passage)]


class Sentence(Parts):
    """Parts that are sentences.

    >>> from multiview.config import Model
    >>> for sequence in Sentence(Model(), tokenizer).passage(passage):
    ...     print(tokenizer.decode(sequence.input_ids))
    [CLS] tower [SEP] it was built by the king. [SEP]
    [CLS] tower [SEP] he died. [SEP]
    """

    name = "sentence"
    reads_sentences = True

    def spans(self, passage: Passage) -> list[Span]:
        return list(pairwise((0, *passage.sentence_ends))) or [(0, 0)]


class EqualSplits(Parts):
    """Parts that are `model.views` runs of words, which differ by one word at most; the longer ones come first.

    A text with fewer words has one part per word.

    >>> from multiview.config import Model
    >>> for sequence in EqualSplits(Model(views=3), tokenizer).passage(passage):
    ...     print(tokenizer.decode(sequence.input_ids))
    [CLS] tower [SEP] it was built [SEP]
    [CLS] tower [SEP] by the king. [SEP]
    [CLS] tower [SEP] he died. [SEP]
    """

    name = "equal-splits"

    def spans(self, passage: Passage) -> list[Span]:
        starts = [match.start() for match in WORD.finditer(passage.text)]
        count = max(1, min(self.settings.views, len(starts)))
        size, longer = divmod(len(starts), count)
        firsts = [part * size + min(part, longer) for part in range(1, count)]
        return list(pairwise((0, *(starts[first] for first in firsts), len(passage.text))))
