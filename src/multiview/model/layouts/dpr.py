"""DPR: one vector per passage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multiview.model.layouts.base import Layout, TokenSequence

if TYPE_CHECKING:
    from multiview.data.passages import Passage


class Dpr(Layout):
    """`[CLS] title [SEP] text [SEP]`; the view is `[CLS]` and represents the whole text."""

    name = "dpr"
    has_spans = True

    @property
    def max_views(self) -> int:
        return 1

    def passage(self, passage: "Passage", queries: Sequence[str] = ()) -> list[TokenSequence]:
        ids = [self._cls, *self._title_and_text(passage, self.settings.passage_length - 1)]
        return [TokenSequence(ids, (self._whole(len(ids), (0, len(passage.text))),))]
