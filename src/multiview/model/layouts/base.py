"""What an architecture decides: the token sequences of a passage, and which tokens its views pool.

Everything after that (pooling, scoring by max, losses, index, evaluation) is the same for all architectures.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from multiview.config import Model, Pooling
from multiview.data.passages import Passage
from multiview.data.tokens import Span
from multiview.errors import InputError, counted

LoadedModel: TypeAlias = Any
"""A model as transformers loads it; Any, because type checkers find neither `to` nor `generate` in its classes."""
PreTrainedTokenizer: TypeAlias = Any
"""A transformers tokenizer. Its class takes seconds to import, and types the id of a token as int, str, list or None."""
SNIPPET_MEAN, CLS_FIRST = "snippet-mean", "cls-first"
"""Values of `model.init`: viewer tokens start from their snippets, or from `[CLS]` moved to the first position."""
CHARACTERS = 64
"""Characters of a text to tokenise per token of a sequence. Only speed and memory depend on it: tokenising a passage of
10 MB as a whole would take seconds and a gigabyte."""
WHITE = re.compile(r"[ \t\r\n]")
TEXT_ROOM = 8
"""Fewest tokens of a sequence that a prompt must leave for text."""
TokenRange: TypeAlias = tuple[int, int]
"""Tokens [start, stop) of a sequence."""


@dataclass(frozen=True, slots=True)
class View:
    """One vector of a passage: the sum over `runs`, which are never empty, of the mean of the run's last hidden states.

    `span` is the part of the passage's text that the view represents (code points). A real view without a span
    represents the title, or no part of the passage in a layout without spans. `padding` marks the view of an empty
    snippet.
    """

    runs: tuple[TokenRange, ...]
    span: Span | None = None
    padding: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a passage that a view represents (see `View`)."""

    span: Span | None = None
    padding: bool = False


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Input tokens of the encoder. If `position_ids` is None, the base model's default positions are used."""

    input_ids: list[int]
    views: tuple[View, ...]
    position_ids: list[int] | None = None
    snippets: tuple[TokenRange, ...] = ()
    """Only where viewer tokens start from their snippets (`model.init=snippet-mean`): the tokens of each view's snippet
    without the viewer token itself, the first of the view's tokens; (start, start) for an empty snippet."""


def kept_views(views: Sequence[View | Part], padding: bool) -> list[int]:
    """Returns the indices of the views that get a row in the matrix; padding views only with `padding`."""
    return [i for i, view in enumerate(views) if padding or not view.padding]


def row_numbers(views: Sequence[View | Part], rows: int) -> list[int]:
    """Returns which views of a passage, padding included and counted from 0, its `rows` stored rows belong to.

    Whether padding views were kept follows from `rows`. Raises InputError if neither the number of all views nor that
    of the real views is `rows`.
    """
    for padding in (True, False):
        numbers = kept_views(views, padding)
        if len(numbers) == rows:
            return numbers
    raise InputError(
        f"the embeddings hold {counted(rows, 'view')} where the layout makes {len(numbers)}: encode and index the corpus again"
    )


class Layout(ABC):
    """One architecture with one tokenizer. Subclasses define the order of tokens and the tokens of views.

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
    defaults: ClassVar[Mapping[str, object]] = {}
    """The architecture's defaults, as overrides of the configuration."""
    has_spans: ClassVar[bool]
    """Whether views represent parts of the text, so that one of them can hold the answer."""
    several_views: ClassVar[bool] = False
    """Whether a sequence has up to `model.views` views; otherwise it has one."""
    reads_sentences: ClassVar[bool] = False
    """Whether views depend on where the passage's sentences end."""
    reads_queries: ClassVar[bool] = False
    """Whether a passage is read together with queries: the question in training, otherwise generated queries."""
    marks_snippets: ClassVar[bool] = False
    """Whether each viewer token, if there are any, is followed by the snippet that it represents."""
    as_base: ClassVar[bool] = False
    """Whether special tokens, pooling, dense layers and normalisation are those of the base's makers."""
    nested: ClassVar[bool] = False
    """Whether the first k views alone stand for a passage: training takes the losses of the first 1, 2, 4, … views
    (`nested_loss`), and a search may read the first k."""
    _first: list[int]
    _sep: int

    def __init__(self, settings: Model, tokenizer: PreTrainedTokenizer) -> None:
        self.check(settings)
        self.settings = settings
        self._tokenizer = tokenizer
        if not self.as_base:
            self._first, self._sep = _around(tokenizer)
            if not self._first and not self.viewers(settings) and self.pooling in ("viewer", "both"):
                raise InputError(
                    f"model.base: its tokenizer has no [CLS] token, which architecture {self.name} pools; choose a BERT-like "
                    "model, or use model.pooling=last or architecture meta"
                )
        if not tokenizer.is_fast:
            raise InputError(
                "model.base: its tokenizer has no tokenizer.json, which tells where a token is in the text: save it with transformers' fast tokenizer"
            )
        self._viewers = [_known(tokenizer, token) for token in self.viewers(settings)]
        self.question_prompt = settings.question_prompt or ""
        self.passage_prompt = settings.passage_prompt or ""
        prompts = [p for each in (self.question_prompt, self.passage_prompt) for p in (each, each.rstrip())]
        self._prompt_lengths = dict(zip(prompts, map(len, self._tokens(prompts)), strict=True))

    @classmethod
    def check(cls, settings: Model, max_positions: int | None = None) -> None:
        """Raises InputError where `settings` do not suit this architecture or a base model with `max_positions`."""
        for key in ("question_length", "passage_length"):
            length = getattr(settings, key)
            if max_positions is not None and length > max_positions:
                raise InputError(
                    f"model.{key}: {length} tokens, but the base model has {max_positions} positions; "
                    f"set it to {max_positions} or less"
                )
        if settings.init in (SNIPPET_MEAN, CLS_FIRST) and not (cls.marks_snippets and cls.viewers(settings)):
            raise InputError(
                f"model.init: {settings.init} needs viewer tokens before snippets, which architecture {cls.name} with "
                f"model.pooling={settings.pooling} does not have; use random or cls"
            )

    @classmethod
    def _check_viewer_pooling(cls, settings: Model, views: str) -> None:
        """Raises InputError for a pooling other than `viewer`; `views` completes its "whose views …"."""
        if settings.pooling != "viewer":
            raise InputError(
                f"model.pooling: {settings.pooling} does not suit architecture {cls.name}, whose views {views}; use viewer"
            )

    @classmethod
    def viewers(cls, settings: Model) -> list[str]:
        """Returns the special tokens to add: the question's token first, then the passage's tokens in order."""
        return []

    @property
    def max_views(self) -> int:
        """Maximum number of views per sequence."""
        return self.settings.views if self.several_views else 1

    @abstractmethod
    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        """Returns the sequences of `passage`, which include `queries` in architectures that read them."""

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        """Returns the parts that the views of all sequences of `passage` represent.

        A layout whose parts do not depend on tokens finds them without tokenising, which would take most of the time.
        """
        sequences = self.passage(passage, queries)
        return [Part(view.span, view.padding) for sequence in sequences for view in sequence.views]

    def question(self, text: str) -> TokenSequence:
        """Returns the sequence of a question: its prompt and text between the tokens `around_question`, with one view.

        ’ becomes ', as in DPR. The snippet of `[VIE]` is the whole question without the prompt.
        """
        before, after = self.around_question
        (tokens,) = self._tokens([plain_apostrophes(self.question_prompt + text)])
        ids = [*before, *tokens[: self.settings.question_length - len(before) - len(after)], *after]
        start = len(before) + self._prompt_lengths[self.question_prompt.rstrip()]
        snippets = self._starts([(start, max(start, len(ids) - len(after)))])
        view = self._whole(len(ids), None, self._left_out(self.question_prompt, before))
        return TokenSequence(ids, (view,), snippets=snippets)

    @property
    def around_question(self) -> tuple[list[int], list[int]]:
        """Ids of the special tokens around a question: `[VIE]` or `[CLS]` before it, `[SEP]` after it."""
        return self._viewers[:1] or self._first, [self._sep]

    @property
    def pooling(self) -> Pooling:
        """Pooling of a sequence with a single view, such as a question."""
        return self.settings.pooling

    def lengthen_questions(self, tokens: int, positions: int | None) -> None:
        """Allows questions of up to `tokens` tokens. Raises InputError if the base model has fewer `positions`."""
        settings = self.settings.model_copy(update={"question_length": tokens})
        self.check(settings, positions)
        self.settings = settings
        self.check_prompts()

    def check_prompts(self) -> None:
        """Raises InputError for a prompt that leaves a text no room, or that spells a special token."""
        empty = {"question": self.question(""), "passage": self.passage(Passage("", "", "", ()))[0]}
        for name, sequence in empty.items():
            prompt, length = getattr(self, f"{name}_prompt"), getattr(self.settings, f"{name}_length")
            if prompt and len(sequence.input_ids) + TEXT_ROOM > length:
                raise InputError(
                    f"model.{name}_prompt: it has {counted(self._prompt_lengths[prompt], 'token')}, which leave no room for text in "
                    f"model.{name}_length {length}; shorten it or raise the length"
                )
            if self._tokenizer(prompt, add_special_tokens=False)["input_ids"] != self._tokens([prompt])[0]:
                raise InputError(
                    f"model.{name}_prompt: {prompt!r} spells a special token of the base, which texts may not; choose another prompt"
                )

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the word pieces of each text; for a long text, at least as many as a sequence has room for.

        Text that spells a special token is tokenised as text.
        """
        tokens = self._encode([_beginning(text, self._room * CHARACTERS) for text in texts])["input_ids"]
        for number, text in enumerate(texts):
            if len(text) > self._room * CHARACTERS and len(tokens[number]) <= self._room:
                (tokens[number],) = self._encode([text])["input_ids"]
        return tokens

    def _cut_tokens(self, parts: Sequence[str]) -> list[list[int]]:
        """Returns the word pieces of each part of a text that is tokenised as a whole.

        A piece belongs to the part that contains its first character, and white space to the word after it. A long
        part has at least as many pieces as a sequence has room for.
        """
        begins = [_beginning(part, self._room * CHARACTERS, 1) for part in parts]
        while True:
            stops = _word_stops(begins)
            last = bisect_left(stops, stops[-1])
            encoded = self._encode(["".join(begins)], return_offsets_mapping=True)
            tokens: list[list[int]] = [[] for _ in parts]
            for token, (start, _) in zip(encoded["input_ids"][0], encoded["offset_mapping"][0], strict=True):
                tokens[min(bisect_right(stops, start), last)].append(token)
            short = [
                len(begin) < len(part) and len(pieces) <= self._room
                for begin, part, pieces in zip(begins, parts, tokens, strict=True)
            ]
            if not any(short):
                return tokens
            begins = [part if cut else begin for begin, part, cut in zip(begins, parts, short, strict=True)]

    @property
    def _room(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.settings.passage_length, self.settings.question_length)

    def _encode(self, texts: Sequence[str], **options: bool) -> Mapping[str, Any]:
        return self._tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
            **options,
        )

    def _left_out(self, prompt: str, before: Sequence[int]) -> int:
        """Returns how many tokens a mean leaves out: the special ones `before` a prompt, and those of the prompt alone.

        This is how sentence-transformers counts them for a base whose makers exclude prompts from the mean.
        """
        return 0 if self.settings.include_prompt or not prompt else len(before) + self._prompt_lengths[prompt]

    def _whole(self, length: int, span: Span | None = None, left_out: int | None = None) -> View:
        """Returns the only view of a sequence: its first token, the mean of all tokens, their sum, or its last token.

        The mean skips the first `left_out` tokens, by default those before a passage that begins with `_first` and its
        prompt; in a layout `as_base`, the token after them counts as the first.
        """
        left_out = self._left_out(self.passage_prompt, self._first) if left_out is None else left_out
        start = min(left_out, length - 1)
        whole, last = (start, length), (length - 1, length)
        first = (start, start + 1) if self.as_base else (0, 1)
        runs = {"viewer": (first,), "snippet": (whole,), "both": (first, whole), "last": (last,)}
        return View(runs[self.pooling], span)

    def _starts(self, snippets: Sequence[TokenRange]) -> tuple[TokenRange, ...]:
        """Returns the snippets that viewer tokens start from: the given ones, or none unless `model.init` is snippet-mean."""
        return tuple(snippets) if self.settings.init == SNIPPET_MEAN else ()

    def _title_and_text(self, passage: Passage, room: int) -> list[int]:
        """Returns `prompt title [SEP] text [SEP]` in at most `room` tokens: the end of the text is cut, the last `[SEP]` is kept.

        Without a title the first `[SEP]` is left out too. Where the tokenizer has no `[SEP]`, a space separates title
        and text, and the last token is the one that ends a text.
        """
        prompt, title, text = self.passage_prompt, passage.title, passage.text
        if self._tokenizer.sep_token_id is None:
            title, text = "", f"{title} {text}".strip()
        parts = [prompt + title, text] if title.strip() else ["", prompt + text]
        heading, body = self._tokens(parts)
        ids = [*heading, self._sep, *body] if heading else body
        return [*ids[: room - 1], self._sep]


def _beginning(text: str, length: int, white: int = 0) -> str:
    """Returns a text up to the first white space after `length` characters, which is within no tokenizer's word piece.

    `white` is 1 to keep this white space, 0 to leave it out.
    """
    end = WHITE.search(text, length) if len(text) > length else None
    return text[: end.start() + white] if end else text


def _word_stops(parts: Sequence[str]) -> list[int]:
    """Returns where each part's last word ends in the joined text; for a blank part, where the one before it ends."""
    stops, length = [0], 0
    for part in parts:
        stops.append(length + len(word) if (word := part.rstrip()) else stops[-1])
        length += len(part)
    return stops[1:]


def plain_apostrophes(question: str) -> str:
    """Returns the question with ’ replaced by ', as in DPR."""
    return question.replace("’", "'")


def frame(tokenizer: PreTrainedTokenizer) -> tuple[list[int], list[int]]:
    """Returns the ids of the tokens that a tokenizer itself puts before and behind a text."""
    probe, framed = tokenizer("a", add_special_tokens=False)["input_ids"], tokenizer("a")["input_ids"]
    start = next(i for i in range(len(framed)) if framed[i : i + len(probe)] == probe)
    return framed[:start], framed[start + len(probe) :]


def name_frame(tokenizer: PreTrainedTokenizer) -> None:
    """Names the tokens that begin and end a text, where a tokenizer puts them there without naming them."""
    begins = tokenizer.cls_token_id is not None or tokenizer.bos_token_id is not None
    if begins and tokenizer.sep_token_id is not None:
        return
    before, behind = frame(tokenizer)
    if tokenizer.sep_token_id is None and behind:
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(behind[-1])  # which may have been another
    if before and not begins:
        tokenizer.cls_token = tokenizer.convert_ids_to_tokens(before[0])


def _around(tokenizer: PreTrainedTokenizer) -> tuple[list[int], int]:
    """Returns the ids of the tokens that begin and end a text: `[CLS]` and `[SEP]`, or what a causal model has for them.

    The first may be missing in a causal model. Raises InputError if the last is.
    """
    cls, bos, sep, eos = (
        getattr(tokenizer, f"{role}_token_id", None) for role in ("cls", "bos", "sep", "eos")
    )
    last = eos if sep is None else sep
    if last is None:
        raise InputError("model.base: its tokenizer has no [SEP] token; choose a BERT-like model")
    first = bos if cls is None else cls
    return [] if first is None else [first], last


def _known(tokenizer: PreTrainedTokenizer, token: str) -> int:
    """Returns the id of a viewer token. Raises InputError if the tokenizer does not know it."""
    index = tokenizer.convert_tokens_to_ids(token)
    if index is None or index == tokenizer.unk_token_id:
        raise InputError(
            f"the model's tokenizer does not know {token}; the model was made for another architecture or number of views"
        )
    return index
