"""What an architecture decides: the token sequences of a passage, and where its views stand in them.

Everything after that (pooling, scoring by max, losses, index, evaluation) is the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from multiview.config import Model
from multiview.errors import InputError

if TYPE_CHECKING:
    from multiview.data.passages import Passage

PreTrainedTokenizer = Any
"""A transformers tokenizer; not imported, because that takes seconds."""
Run = tuple[int, int]
"""Tokens [start, stop) of a sequence, never empty."""
Span = tuple[int, int]
"""Code points [start, stop) of a passage's text."""


@dataclass(frozen=True, slots=True)
class View:
    """One vector of a passage: the sum over `runs` of the mean of the run's last hidden states.

    `span` is what the view speaks for in the passage's text (code points). A real view without one speaks
    for the title, or for no part of the passage where the layout has no spans. `padding` marks the view of
    an empty snippet.
    """

    runs: tuple[Run, ...]
    span: Span | None = None
    padding: bool = False


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens as the encoder gets them. `position_ids` none: the base model's natural ones."""

    input_ids: list[int]
    views: tuple[View, ...]
    position_ids: list[int] | None = None


def kept_views(views: Sequence[View], padding: bool) -> list[int]:
    """Which views of a sequence get a row in the matrix: padding views only where they are wanted."""
    return [i for i, view in enumerate(views) if padding or not view.padding]


def numbered_views(sequences: Sequence[TokenSequence], rows: int) -> list[tuple[int, View]]:
    """The views that a passage's `rows` rows stand for, in order, each with its place among all of the
    passage's views, padding included, from 0.

    `rows` tells whether padding views were kept. InputError if neither all views nor the real ones are as many.
    """
    for padding in (True, False):
        found, first = [], 0
        for sequence in sequences:
            found += [(first + i, sequence.views[i]) for i in kept_views(sequence.views, padding)]
            first += len(sequence.views)
        if len(found) == rows:
            return found
    raise InputError(
        f"the embeddings hold {rows} views where the layout makes {len(found)}: encode and index the corpus again"
    )


class Layout(ABC):
    """One architecture over one tokenizer. Subclasses say where tokens and views are.

    >>> from multiview.data.passages import Passage
    >>> from multiview.model.layouts import layout
    >>> camvr = layout(Model(architecture="camvr", views=3), tokenizer)
    >>> passage = Passage("p0", "Tower", "It was built by the king. He died.", sentence_ends=(26, 34))
    >>> (sequence,) = camvr.passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[VIE1] tower [VIE2] it was built by the king. [VIE3] he died. [SEP]'
    >>> [view.span for view in sequence.views]
    [None, (0, 26), (26, 34)]
    >>> tokenizer.decode(camvr.question("Who built it?").input_ids)
    '[VIE] who built it? [SEP]'
    """

    name: ClassVar[str]
    """The value of `model.architecture`."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """The architecture's own defaults, as overrides of the configuration."""
    has_spans: ClassVar[bool]
    """Whether views stand for parts of the text, so that one of them can be the answer's."""
    reads_queries: ClassVar[bool] = False
    """Whether a passage is read together with queries: the question in training, else generated ones."""

    def __init__(self, settings: Model, tokenizer: PreTrainedTokenizer) -> None:
        self.check(settings)
        self.settings = settings
        self._tokenizer = tokenizer
        self._cls = _special(tokenizer, "cls_token", "[CLS]")
        self._sep = _special(tokenizer, "sep_token", "[SEP]")
        self._viewers = [_known(tokenizer, token) for token in self.viewers(settings)]

    @classmethod
    def check(cls, settings: Model, max_positions: int | None = None) -> None:
        """Raise InputError where `settings` do not suit this architecture or a base of `max_positions`."""
        for key in ("question_length", "passage_length"):
            length = getattr(settings, key)
            if max_positions is not None and length > max_positions:
                raise InputError(
                    f"model.{key}: {length} tokens, but the base model has {max_positions} positions; "
                    f"set it to {max_positions} or less"
                )

    @classmethod
    def viewers(cls, settings: Model) -> list[str]:
        """The special tokens to add: the question's first, then the passage's in order."""
        return []

    @property
    @abstractmethod
    def max_views(self) -> int:
        """The most views that a sequence has."""

    @abstractmethod
    def passage(self, passage: "Passage", queries: Sequence[str] = ()) -> list[TokenSequence]:
        """The sequences of `passage` read together with `queries`, where the architecture does that."""

    def question(self, text: str) -> TokenSequence:
        """`[VIE] question [SEP]`, or `[CLS] question [SEP]` without viewer tokens; one view. DPR reads ’ as '."""
        first = self._viewers[0] if self._viewers else self._cls
        (tokens,) = self._tokens([plain_apostrophes(text)])
        ids = [first, *tokens[: self.settings.question_length - 2], self._sep]
        return TokenSequence(ids, (self._whole(len(ids)),))

    def lengthen_questions(self, tokens: int, positions: int | None) -> None:
        """Let questions have up to `tokens` tokens, of a base with that many positions. Raises InputError."""
        settings = self.settings.model_copy(update={"question_length": tokens})
        self.check(settings, positions)
        self.settings = settings

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The word pieces of each text. Text that spells a special token is text, not that token."""
        encoded = self._tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        return encoded["input_ids"]

    def _whole(self, length: int, span: Span | None = None) -> View:
        """The only view of a sequence: its first token, the mean of all tokens, or the sum of both."""
        first, whole = (0, 1), (0, length)
        runs = {"viewer": (first,), "snippet": (whole,), "both": (first, whole)}
        return View(runs[self.settings.pooling], span)

    def _title_and_text(self, passage: "Passage", room: int) -> list[int]:
        """`title [SEP] text [SEP]` in at most `room` tokens: the end is cut, the last `[SEP]` kept.

        Without a title there is no `[SEP]` of its own either.
        """
        title, text = self._tokens([passage.title, passage.text])
        ids = [*title, self._sep, *text] if title else text
        return [*ids[: room - 1], self._sep]


def plain_apostrophes(question: str) -> str:
    """DPR reads ’ as ' in questions."""
    return question.replace("’", "'")


def _special(tokenizer: PreTrainedTokenizer, attribute: str, shape: str) -> int:
    """The id of a special token that BERT-like models have."""
    token = getattr(tokenizer, f"{attribute}_id", None)
    if token is None:
        raise InputError(f"model.base: its tokenizer has no {shape} token; choose a BERT-like model")
    return token


def _known(tokenizer: PreTrainedTokenizer, token: str) -> int:
    """The id of a viewer token, which must have been added before."""
    index = tokenizer.convert_tokens_to_ids(token)
    if index is None or index == tokenizer.unk_token_id:
        raise InputError(
            f"the model's tokenizer does not know {token}; the model was made for another architecture or number of views"
        )
    return index
