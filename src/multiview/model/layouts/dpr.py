"""DPR: one vector per passage."""

from collections.abc import Sequence

from multiview.data.passages import Passage
from multiview.model.layouts.base import Layout, Part, TokenSequence


class Dpr(Layout):
    """`[CLS] title [SEP] text [SEP]`; the view is `[CLS]` and represents the whole text.

    With `pooling: last` the view is the last token, which is the only one that has read the whole text in a causal model.

    >>> from multiview.config import Model
    >>> (sequence,) = Dpr(Model(), tokenizer).passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[CLS] tower [SEP] it was built by the king. he died. [SEP]'
    >>> sequence.views
    (View(runs=((0, 1),), span=(0, 34), padding=False),)
    """

    name = "dpr"
    has_spans = True

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        room = self.settings.passage_length - len(self._first)
        ids = [*self._first, *self._title_and_text(passage, room)]
        return [TokenSequence(ids, (self._whole(len(ids), (0, len(passage.text))),))]

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        return [Part((0, len(passage.text)))]
