"""ME-BERT (Luan et al., 2021): the first k tokens of the passage."""

from collections.abc import Sequence

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.errors import InputError, counted
from multiview.model.layouts.base import Layout, TokenSequence, View


class MeBert(Layout):
    """`[CLS] title [SEP] text [SEP]`; the views are the first `model.views` tokens, or fewer in a shorter sequence.

    A prompt's tokens are not views.

    A baseline of MVR (Tables 2, 4, 6).

    >>> (sequence,) = MeBert(Model(views=2), tokenizer).passage(passage)
    >>> [view.runs for view in sequence.views]
    [((0, 1),), ((1, 2),)]
    """

    name = "me-bert"
    has_spans = False
    several_views = True

    @classmethod
    def check(cls, settings: Model, max_positions: int | None = None) -> None:
        super().check(settings, max_positions)
        cls._check_viewer_pooling(settings, "are tokens")
        if settings.views > settings.passage_length:
            raise InputError(
                f"model.views: {counted(settings.views, 'token')}, but model.passage_length is {settings.passage_length}; "
                f"use at most {counted(settings.passage_length, 'view')}"
            )

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        ids = [*self._first, *self._title_and_text(passage, self.settings.passage_length - 1)]
        start = 1 + self._prompt_lengths[self.passage_prompt.rstrip()]
        tokens = [0, *range(start, len(ids))][: self.settings.views]
        views = tuple(View(((i, i + 1),)) for i in tokens)
        return [TokenSequence(ids, views)]
