"""MVR (Zhang et al., 2022): n viewer tokens before the passage."""

from collections.abc import Sequence

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.errors import InputError, counted
from multiview.model.layouts.base import Layout, Part, TokenSequence, View


class Mvr(Layout):
    """`[VIE1]…[VIEn] title [SEP] text [SEP]`; all viewer tokens have position 0, the text starts at 1 (MVR 3.2).

    The relative positions that MPNet and DeBERTa also read, and ModernBERT's window, stay those of the sequence.

    >>> (sequence,) = Mvr(Model(views=2), tokenizer).passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[VIE1] [VIE2] tower [SEP] it was built by the king. he died. [SEP]'
    >>> sequence.position_ids[:5]
    [0, 0, 1, 2, 3]
    """

    name = "mvr"
    defaults = {"train": {"positive": "max", "local_weight": 0.01, "temperature": {"schedule": "annealed"}}}
    has_spans = False
    several_views = True

    @classmethod
    def check(cls, settings: Model, max_positions: int | None = None) -> None:
        super().check(settings, max_positions)
        cls._check_viewer_pooling(settings, "have no snippet")
        if settings.views + 8 > settings.passage_length:
            raise InputError(
                f"model.views: no room for text beside {counted(settings.views, 'viewer token')} in model.passage_length "
                f"{settings.passage_length}; use at most {counted(settings.passage_length - 8, 'view')}"
            )

    @classmethod
    def viewers(cls, settings: Model) -> list[str]:
        return ["[VIE]", *(f"[VIE{i}]" for i in range(1, settings.views + 1))]

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        viewers = self._viewers[1:]
        tokens = self._title_and_text(passage, self.settings.passage_length - len(viewers))
        positions = [0] * len(viewers) + list(range(1, len(tokens) + 1))
        views = tuple(View(((i, i + 1),)) for i in range(len(viewers)))
        return [TokenSequence([*viewers, *tokens], views, positions)]

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        return [Part()] * self.settings.views
