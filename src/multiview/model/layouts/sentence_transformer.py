"""A base as its makers use it: the vector that sentence-transformers gives a text."""

from collections.abc import Sequence

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.data.tokens import Span
from multiview.model.layouts.base import PreTrainedTokenizer, TokenSequence, frame
from multiview.model.layouts.dpr import Dpr


class SentenceTransformer(Dpr):
    """`[CLS] prompt title text [SEP]`, with whatever special tokens the base's own tokenizer puts around a text.

    Pooling, dense layers and normalisation are those of the base's modules.json, so vectors equal those of
    `SentenceTransformer.encode_query` and, for the title and the text joined by a space, `encode_document`. The lengths
    are `model.question_length` and `model.passage_length`, or the base's own where they are shorter.

    >>> (sequence,) = SentenceTransformer(Model(), tokenizer).passage(passage)
    >>> tokenizer.decode(sequence.input_ids)
    '[CLS] tower it was built by the king. he died. [SEP]'
    """

    name = "sentence-transformer"
    as_base = True

    def __init__(self, settings: Model, tokenizer: PreTrainedTokenizer) -> None:
        super().__init__(settings, tokenizer)
        self._before, self._after = frame(tokenizer)

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        text = f"{passage.title} {passage.text}" if passage.title else passage.text
        prompt, span = self.passage_prompt, (0, len(passage.text))
        return [self._framed(prompt, text, self.settings.passage_length, span)]

    def question(self, text: str) -> TokenSequence:
        return self._framed(self.question_prompt, text, self.settings.question_length)

    def _framed(self, prompt: str, text: str, length: int, span: Span | None = None) -> TokenSequence:
        (tokens,) = self._tokens([prompt + text])
        room = length - len(self._before) - len(self._after)
        ids = [*self._before, *tokens[:room], *self._after] or [self._tokenizer.pad_token_id]
        return TokenSequence(ids, (self._whole(len(ids), span, self._left_out(prompt, self._before)),))
