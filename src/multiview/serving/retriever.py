"""The retriever: an index with its model and its texts, loaded once and kept in memory, which answers questions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multiview import names
from multiview.artifacts.record import Artifact, load_record, load_reference
from multiview.artifacts.staging import Check, copy_folder, stage
from multiview.artifacts.staging import verify as read_all
from multiview.artifacts.store import LocalStore
from multiview.data.passages import PassageRows, shard_files
from multiview.data.reading.values import has_half
from multiview.encoding.embeddings import encoded_with
from multiview.errors import InputError, naming
from multiview.index.indexed_passages import IndexedPassage, IndexedPassages
from multiview.serving.hits import NO_VIEW, Hit, Rank, ScoredView
from multiview.serving.where import Where, satisfying

if TYPE_CHECKING:
    from multiview.encoding.encode import Encoder
    from multiview.index.ranker import Ranker

QUESTIONS_AT_ONCE = 256
"""Questions that are searched and looked up together. Memory depends on it; results do not."""
CONDITIONS_KEPT = 32
"""Conditions whose matching passages are cached, at one bit per passage."""


class Retriever:
    """Answers questions from one index, with the model that made its views; `load` returns a retriever. Any number of
    threads may call `search`: they take turns only at the encoder and its tokenizer.

    >>> retriever = load(address)
    >>> len(retriever), retriever.architecture, retriever.exact
    (32, 'camvr', True)
    """

    def __init__(
        self,
        address: str,
        ranker: Ranker,
        encoder: Encoder,
        corpus: PassageRows,
        sources: Sequence[Artifact] = (),
        copies: Collection[Path] = (),
    ) -> None:
        """`corpus` has the passages of the index in the same order; `sources` are the artifacts they are read from."""
        self.address = address
        self.copies = frozenset(copies)
        """Folders with local copies of a bucket's artifacts, which are needed until the retriever is dropped."""
        self.index = ranker.index
        self.exact = ranker.index.exact
        """Whether `search` finds the best passages; an approximate index may miss some."""
        self.ranking = ranker.name
        """How passages are ranked, such as `hybrid, reranked`; empty if only views rank."""
        self.architecture = encoder.layout.name
        """Name of the model's architecture."""
        self._ranker, self._encoder = ranker, encoder
        self._corpus = corpus
        with naming(f"index {self.address}"):
            self._passages = IndexedPassages(self.index, encoder.layout, corpus)
        self._sources = sources
        self._turn = threading.Lock()
        # A bound method here would form a cycle and keep this object alive until cycles are collected.
        self._satisfying = lru_cache(CONDITIONS_KEPT)(partial(satisfying, corpus))

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.index)

    def search(
        self,
        questions: Sequence[str],
        k: int = 10,
        *,
        explain: bool = False,
        where: str | np.ndarray | None = None,
    ) -> list[list[Hit]]:
        """Returns the k best passages of each question, best first; fewer where the corpus is smaller.

        They are ranked the way the index was built for (`ranking`). Scores are exact; an index that is not `exact` may
        miss passages. Of passages that tie, the one with the smaller id comes first. `explain` adds the scores of all
        views, and the ranks that were fused or reranked. `where` is a condition on the corpus's columns
        (`multiview.serving.where`), or what `satisfying` returned for one: the k best of the passages that satisfy it
        are found, exactly by any index. Raises ConditionError, with the position, for a text that is no condition, and
        InputError for a question that UTF-8 cannot encode.

        Each question is encoded alone: its hits and their scores are the same to the bit in any list, order or thread,
        on the same machine with the same number of torch threads.

        >>> (hits,) = load(address).search(["Who found the island?"], k=1, explain=True)
        >>> best = max(hits[0].views, key=lambda view: view.score)
        >>> (best.number, best.snippet) == (hits[0].best.number, hits[0].snippet)
        True
        """
        if isinstance(questions, str):
            raise TypeError("search takes a list of questions: search([question])")
        questions = [_stripped(question) for question in questions]
        hits: list[list[Hit]] = []
        among = None if where is None else self.among(where)
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            hits += self._search(questions[start : start + QUESTIONS_AT_ONCE], k, explain, among)
        return hits

    def question_vector(self, question: str) -> np.ndarray:
        """Returns the vector of a question [dim] float32, whose inner product with a view is the score. Raises
        InputError for a question that UTF-8 cannot encode.

        >>> retriever = load(address)
        >>> retriever.question_vector("Who found the island?").shape
        (64,)
        """
        with self._turn:
            return self._encoder.question_vector(_stripped(question))

    def satisfying(self, where: str) -> np.ndarray:
        """Returns which passages satisfy the condition `where`, packed by `np.packbits` [p / 8] uint8; the latest are
        cached. Raises ConditionError, with the position, for a text that is no condition."""
        Where(where, self._corpus.schema)
        with _checked_on_error(self._sources):
            return self._satisfying(where)

    def among(self, where: str | np.ndarray) -> np.ndarray:
        """Returns which passages satisfy a condition [p] bool: a text, or what `satisfying` returned for one. Raises
        ConditionError, with the position, for a text that is no condition."""
        packed = self.satisfying(where) if isinstance(where, str) else where
        return np.unpackbits(packed, count=len(self)).view(bool)

    def passage(self, id: str) -> IndexedPassage | None:
        """Returns the passage with an id, with its columns and what its views represent; None where there is none."""
        row = self.index.row_of(id)
        return None if row is None else self._read(np.array([row]))[row]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the corpus."""
        return self._corpus.schema

    def _search(
        self, questions: Sequence[str], k: int, explain: bool, among: np.ndarray | None
    ) -> list[list[Hit]]:
        with self._turn:
            queries = np.stack([self._encoder.question_vector(question) for question in questions])
        with _checked_on_error(self._sources):
            ranked = self._ranker.search(questions, queries, k, among=among)
        passages = self._read(ranked.top.passages)

        def hit(question: int, column: int, row: int, score: float, winner: int) -> Hit:
            found, best_score = passages[row], float(ranked.view_scores[question, column])
            view_scores = self.index.view_scores(queries[question], row).tolist() if explain else ()
            places = ranked.places(question, row) if explain else {}
            return Hit(
                id=found.passage.id,
                title=found.passage.title,
                text=found.passage.text,
                score=score,
                best=ScoredView.of(found.views[winner], best_score) if winner >= 0 else NO_VIEW,
                columns=dict(found.columns),
                views=tuple(map(ScoredView.of, found.views, view_scores)),
                ranks={name: Rank(*place) for name, place in places.items()},
            )

        return [
            [hit(question, column, *found) for column, found in enumerate(ranked.top.hits(question))]
            for question in range(len(questions))
        ]

    def _read(self, rows: np.ndarray) -> dict[int, IndexedPassage]:
        """The passages at `rows`, by row. Raises InputError where the corpus or the layout does not suit the index."""
        with _checked_on_error(self._sources), naming(f"index {self.address}"):
            passages = {indexed.row: indexed for indexed in self._passages.read(rows)}
        with self._turn, naming(f"index {self.address}"):
            for indexed in passages.values():
                _ = indexed.views  # tokenised now, while this thread has the tokenizer
        return passages


def _stripped(question: str) -> str:
    """Returns a question without white space around it, as it is trained and evaluated. Raises InputError for a lone
    surrogate."""
    if has_half(question):
        raise InputError(f"the question {question!a} holds half a character (a lone surrogate)")
    return question.strip()


def load_artifacts(address: str) -> tuple[Artifact, Artifact, Artifact]:
    """Returns an index, its model and its passages. Model and passages are looked up in the index's store first, as it
    may have been moved. Raises InputError if there is no index at `address`, or if one of them is gone."""
    index = load_record(address, kind=names.INDEX)
    model, corpus = (
        load_reference(index.record.inputs[name][0], f"index {address}", index.store)
        for name in (names.MODEL, names.PASSAGES)
    )
    return index, model, corpus


def load(
    address: str,
    *,
    device: str = "auto",
    verify: bool = False,
    views: int | None = None,
    copies: list[Path] | None = None,
) -> Retriever:
    """Returns the retriever of the index at `address`, `<store>/index/<key>`.

    Files in a bucket are copied and checked. Files in a local store are checked by size, and by sha256 with `verify` or
    if they were written to since they were last found whole. `device` is cpu, cuda or auto. `views` is how many of each
    passage's views, from the first, are searched (architecture meta); by default all. The folders of copies are added to
    `copies`, also if loading fails. Raises InputError if there is no index at `address`, or if the model or the passages
    that its record names are missing, truncated or altered.
    """
    found, model, corpus = load_artifacts(address)
    # Imported only now, because importing torch takes seconds and the errors above should not wait for it.
    from multiview.encoding.encode import Encoder
    from multiview.index.ranker import Ranker
    from multiview.index.view_index import INDEX_FILE, ViewIndex
    from multiview.model import devices

    settings = encoded_with(found.record, device)
    searching = devices.device(settings.device, "encode.device")
    check: Check = "bytes" if verify else "writes"
    copies = [] if copies is None else copies

    def staged(artifact: Artifact) -> Path:
        if not isinstance(artifact.store, LocalStore):
            copies.append(copy_folder(artifact.record))
        return stage(*artifact, check=check).path

    folder = staged(found)
    if isinstance(found.store, LocalStore) and (folder / INDEX_FILE).is_file():
        stage(*found, INDEX_FILE)  # faiss trusts every byte of it; copies are always checked
    with _checked_on_error([found]):
        index = ViewIndex.load(folder, str(searching))
    index.check_model(model.record.digest)
    with _checked_on_error([model]):
        encoder = Encoder(staged(model), settings, questions_only=True)
    index = index.first_views(views, encoder.layout)
    with _checked_on_error([corpus]):
        rows = PassageRows(shard_files(staged(corpus)))
    with _checked_on_error([found]):
        ranker = Ranker(index, folder, rows, settings)
    return Retriever(address, ranker, encoder, rows, [corpus], copies)


@contextlib.contextmanager
def _checked_on_error(sources: Iterable[Artifact]) -> Iterator[None]:
    """Raises InputError if the block fails and a file of the artifacts `sources` is damaged."""
    try:
        yield
    except Exception:
        for store, record in sources:
            read_all(store, record)
        raise
