"""CAMVR: a viewer token before each of the passage's n snippets."""

from collections.abc import Sequence

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.errors import InputError, counted
from multiview.model.layouts.base import Layout, Part, TokenRange, TokenSequence, View
from multiview.model.layouts.snippets import covered, snippet_parts, split_snippets

PADDING = Part(padding=True)


class Camvr(Layout):
    """`[VIE1] s1 [VIE2] s2 … [VIEn] sn [SEP]` at natural positions (CAMVR Eq. 10-12); empty snippets are lone viewer tokens.

    A prompt stands before `[VIE1]` and belongs to no snippet.

    With `pooling: snippet` no view needs the viewer tokens. The sequence is then `[CLS] s1 s2 … sn [SEP]`, and the
    question `[CLS] question [SEP]` (ours). This is late chunking (Günther et al., arXiv 2409.04701) by Algorithm 1's
    snippets, trained as it is searched: the positive is the chunk that holds the answer (Eq. 13), a negative its
    best chunk. Late chunking itself uses an off-the-shelf base, and the training it proposes pools answers, not chunks.
    We measured these sequences on an untrained base for mean pooling (all-MiniLM-L6-v2, 2,067 SQuAD dev passages, 600
    dev questions, top-1/5/20 accuracy of the gold passage, standard error of top-1 about 2): 73.0/89.3/95.8 without
    viewer tokens, 67.2/87.5/95.2 with random ones between the snippets, and 62.2/86.8/96.3 with one vector for all tokens.

    >>> (sequence,) = Camvr(Model(views=2), tokenizer).passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[VIE1] tower it was built by the king. [VIE2] he died. [SEP]'
    >>> [view.span for view in sequence.views]
    [(0, 26), (26, 34)]
    """

    name = "camvr"
    defaults = {"train": {"positive": "answer", "temperature": {"schedule": "annealed"}}}
    has_spans = True
    several_views = True
    reads_sentences = True
    marks_snippets = True

    @classmethod
    def check(cls, settings: Model, max_positions: int | None = None) -> None:
        super().check(settings, max_positions)
        if settings.pooling == "last":
            raise InputError(
                "model.pooling: last does not suit architecture camvr, whose views are snippets; use viewer, snippet or both"
            )
        each, around = (2, 1) if cls.viewers(settings) else (1, 2)
        if each * settings.views + around > settings.passage_length:
            beside = " with viewer tokens" if cls.viewers(settings) else ""
            raise InputError(
                f"model.views: no room for {counted(settings.views, 'snippet')}{beside} in model.passage_length "
                f"{settings.passage_length}; use at most {counted((settings.passage_length - around) // each, 'view')}"
            )

    @classmethod
    def viewers(cls, settings: Model) -> list[str]:
        if settings.pooling == "snippet":
            return []
        return ["[VIE]", *(f"[VIE{i}]" for i in range(1, settings.views + 1))]

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        n = self.settings.views
        marks = [[viewer] for viewer in self._viewers[1:]] or [[]] * n
        snippets = split_snippets(
            passage.title, passage.text, passage.sentence_ends, n, self.settings.merge_title
        )
        texts = [snippet.text for snippet in snippets]
        prompt, *tokens = self._cut_tokens([self.passage_prompt, *texts])
        ids = [*([] if self._viewers else self._first), *prompt]
        room = self.settings.passage_length - len(ids) - sum(map(len, marks)) - 1
        kept = cut_longest([len(pieces) for pieces in tokens], room)
        views: list[View] = []
        ranges: list[TokenRange] = []
        for mark, pieces, length, snippet in zip(marks, tokens, kept, snippets, strict=True):
            start, text = len(ids), len(ids) + len(mark)
            ids += [*mark, *pieces[:length]]
            ranges.append((text, len(ids)))
            runs = [(start, text)] if self.settings.pooling == "viewer" else [(start, text), ranges[-1]]
            if runs := tuple((start, stop) for start, stop in runs if start < stop):
                views.append(View(runs, snippet.span, snippet.padding))
        ids.append(self._sep)
        # A text without any word piece has no snippet to pool, so its only view is the whole sequence.
        whole = self._whole(len(ids), (0, len(passage.text)))
        return [TokenSequence(ids, tuple(views) or (whole,), snippets=self._starts(ranges))]

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        if not self._viewers:
            return super().parts(passage, queries)  # a snippet without word pieces has no view
        settings = self.settings
        groups = snippet_parts(passage.title, passage.sentence_ends, settings.views, settings.merge_title)
        return [Part(covered(parts)) for parts in groups] + [PADDING] * (settings.views - len(groups))


def cut_longest(lengths: Sequence[int], room: int) -> list[int]:
    """Returns `lengths` after repeatedly shortening the longest (the later of equals) by one, until they fit into `room`.

    The result is computed directly: all lengths are cut to one level, and the first of the longer ones keep one more.
    """
    if sum(lengths) <= room:
        return list(lengths)
    low, high = 0, max(lengths)
    while low + 1 < high:
        middle = (low + high) // 2
        if sum(min(length, middle) for length in lengths) <= room:
            low = middle
        else:
            high = middle
    kept = [min(length, low) for length in lengths]
    spare = room - sum(kept)
    for i, length in enumerate(lengths):
        if spare and length > low:
            kept[i] += 1
            spare -= 1
    return kept
