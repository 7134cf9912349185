"""Dual Cross Encoder (Li et al., 2022): the passage read together with each of its queries."""

from collections.abc import Sequence

from multiview.data.passages import Passage
from multiview.model.layouts.base import Layout, Part, TokenSequence, plain_apostrophes


class DualCross(Layout):
    """`[CLS] query [SEP] title text [SEP]` per distinct query, cut at the end as a whole; the view is its `[CLS]`.

    Dual Cross Encoder 3.4-3.6: in training the query is the question, for negatives too. In the index there is one
    view per generated query. A passage without queries is `[CLS] title text [SEP]` (ours). The
    passages' prompt stands before the query, which has none of its own (ours).

    >>> from multiview.config import Model
    >>> for sequence in DualCross(Model(), tokenizer).passage(passage, ["Who built it?", "Who died?"]):
    ...     print(tokenizer.decode(sequence.input_ids))
    [CLS] who built it? [SEP] tower it was built by the king. he died. [SEP]
    [CLS] who died? [SEP] tower it was built by the king. he died. [SEP]
    """

    name = "dual-cross"
    has_spans = True
    reads_queries = True

    def passage(self, passage: Passage, queries: Sequence[str] = ()) -> list[TokenSequence]:
        distinct = dict.fromkeys(queries)
        prompt = self.passage_prompt
        text = f"{passage.title} {passage.text}" if passage.title else passage.text
        asked = [prompt + plain_apostrophes(query) for query in distinct]
        body, *heads = self._tokens([text if asked else prompt + text, *asked])
        sequences = []
        for head in heads or [[]]:
            query = [*head, self._sep] if head else []
            ids = [*[*self._first, *query, *body][: self.settings.passage_length - 1], self._sep]
            sequences.append(TokenSequence(ids, (self._whole(len(ids), (0, len(passage.text))),)))
        return sequences

    def parts(self, passage: Passage, queries: Sequence[str] = ()) -> list[Part]:
        return [Part((0, len(passage.text)))] * max(1, len(set(queries)))
