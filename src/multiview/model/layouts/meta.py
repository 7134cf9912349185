"""Meta tokens (MetaEmbed, ICLR 2026): n viewer tokens after the passage, of which a search may read the first k."""

from collections.abc import Sequence

from multiview.config import Pooling
from multiview.data.passages import Passage
from multiview.model.layouts.base import TokenSequence, View
from multiview.model.layouts.mvr import Mvr


class Meta(Mvr):
    """`[CLS] title [SEP] text [SEP] [VIE1]…[VIEn]`; the views are the n viewer tokens, which all read the whole text.

    They do so in a causal model too, where the first k are the same whatever n is. Training takes the mean of the
    losses of the first 1, 2, 4, … and all n views, so that each such prefix represents the passage: the number of
    views is chosen at search, without encoding again. The question is `[CLS] question [SEP] [VIE]`, and the score the
    max over views (ours; in MetaEmbed a question has several vectors too, whose maxima are summed).

    >>> from multiview.config import Model
    >>> meta = Meta(Model(views=2), tokenizer)
    >>> (sequence,) = meta.passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[CLS] tower [SEP] it was built by the king. he died. [SEP] [VIE1] [VIE2]'
    >>> tokenizer.decode(meta.question("Who built it?").input_ids)
    '[CLS] who built it? [SEP] [VIE]'
    """

    name = "meta"
    defaults = {}
    nested = True

    @property
    def around_question(self) -> tuple[list[int], list[int]]:
        return self._first, [self._sep, self._viewers[0]]

    @property
    def pooling(self) -> Pooling:
        return "last"

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        viewers = self._viewers[1:]
        room = self.settings.passage_length - len(self._first) - len(viewers)
        ids = [*self._first, *self._title_and_text(passage, room)]
        views = tuple(View(((i, i + 1),)) for i in range(len(ids), len(ids) + len(viewers)))
        return [TokenSequence([*ids, *viewers], views)]
