"""Questions in, passages out: an index with its model and its texts, loaded once and kept warm."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from multiview import names
from multiview.artifacts.record import Record, load_record, load_reference
from multiview.artifacts.staging import stage
from multiview.artifacts.staging import verify as read_all
from multiview.artifacts.store import Store
from multiview.config import Encode
from multiview.data.passages import SCHEMA, Passage, PassageRows, shard_files
from multiview.errors import InputError
from multiview.model.layouts import View, numbered_views

if TYPE_CHECKING:
    from multiview.encoding.encode import Encoder
    from multiview.index.view_index import ViewIndex

QUESTIONS_AT_ONCE = 256
"""Questions that are encoded, searched and looked up together. Memory goes with it; results do not."""

BATCH_TOKENS = 64
"""`encode.batch_tokens` of a search: eight rows a batch, whatever their length. The many rows that suit a corpus
are filled with copies, and would make one question wait for them; a vector differs in its last bits alone."""


@dataclass(frozen=True, slots=True)
class ScoredView:
    """One view of a passage, and what it stands for.

    `number` counts the passage's views from 1, those of empty snippets included: the 3 of `[VIE3]`. `span` is
    the snippet's place in the text (code points). `snippet` is that part of the text; the title for the title's
    view; empty for the view of an empty snippet; none where an architecture's views stand for no part of the
    passage (MVR).
    """

    number: int
    score: float
    span: tuple[int, int] | None
    snippet: str | None
    query: str | None = None
    """The generated query that the passage was read with for this view, where the architecture does that."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found. `best` is the view that gave it its score."""

    id: str
    title: str
    text: str
    score: float
    best: ScoredView
    columns: dict[str, Any]
    """The corpus's own columns, such as url or date."""
    views: tuple[ScoredView, ...] = ()
    """Every indexed view of the passage, in order, where `search` was told to explain."""

    @property
    def snippet(self) -> str | None:
        """What matched (see `ScoredView`)."""
        return self.best.snippet

    @property
    def span(self) -> tuple[int, int] | None:
        """Where in the text the snippet stands, in code points."""
        return self.best.span


class Retriever:
    """Answers questions from one index, with the model that made its views; `load` returns one.

    Any number of threads may call `search`. They take turns at the encoder and its tokenizer, which use all
    cores by themselves; searches of the index and look-ups of texts run side by side.
    """

    def __init__(
        self,
        address: str,
        index: ViewIndex,
        encoder: Encoder,
        passages: PassageRows,
        sources: Sequence[tuple[Store, Record]] = (),
    ) -> None:
        """`passages` in the order of `index`; `sources` are the artifacts that they are read from."""
        self.address = address
        self.index = index
        self._encoder = encoder
        self._passages = passages
        self._sources = sources
        self._turn = threading.Lock()

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.index)

    @property
    def exact(self) -> bool:
        """Whether `search` finds the best passages; those of an approximate index may miss some."""
        return self.index.exact

    @property
    def architecture(self) -> str:
        return self._encoder.layout.name

    def search(self, questions: Sequence[str], k: int = 10, *, explain: bool = False) -> list[list[Hit]]:
        """The k best passages of each question, best first; fewer where the corpus is smaller.

        Scores are exact, and so are the passages where `exact` says so; of those that tie, the smaller id comes
        first. `explain` adds the scores of all views.
        """
        if isinstance(questions, str):
            raise TypeError("search takes a list of questions: search([question])")
        hits: list[list[Hit]] = []
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            hits += self._search(questions[start : start + QUESTIONS_AT_ONCE], k, explain)
        return hits

    def _search(self, questions: Sequence[str], k: int, explain: bool) -> list[list[Hit]]:
        with self._turn:
            queries = self._encoder.question_vectors(questions)
        top = self.index.search(queries, k)
        rows = self._rows(top.passages[top.passages >= 0].tolist())
        asked = self.index.queries(rows)
        views = self._views(rows, asked)
        hits: list[list[Hit]] = []
        for query, *columns in zip(queries, top.passages, top.scores, top.views, strict=True):
            found = [(int(n), float(s), int(v)) for n, s, v in zip(*columns, strict=True) if n >= 0]
            hits.append(
                [
                    self._hit(rows[n], score, view, views[n], asked[n], query, n, explain)
                    for n, score, view in found
                ]
            )
        return hits

    def _rows(self, numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The passages' whole rows. Raises InputError where the shards do not hold what was indexed."""
        with _undamaged(self._sources):
            rows = self._passages.rows(numbers)
            for number, row in rows.items():
                if row["id"] != self.index.passage_id(number):
                    raise InputError(
                        f"index {self.address}: its passage {number} is {self.index.passage_id(number)!r}, but the "
                        f"corpus has {row['id']!r} there; build the index again"
                    )
        return rows

    def _views(
        self, rows: dict[int, dict[str, Any]], asked: Mapping[int, Sequence[str]]
    ) -> dict[int, list[tuple[int, View]]]:
        """Each passage's indexed views, with their places among all of its views."""
        found = {}
        with self._turn:
            for number, row in rows.items():
                passage = Passage(row["id"], row["title"], row["text"], tuple(row["sentence_ends"]))
                sequences = self._encoder.layout.passage(passage, asked[number])
                try:
                    found[number] = numbered_views(sequences, int(self.index.views[number]))
                except InputError as error:
                    raise InputError(f"index {self.address}: passage {passage.id!r}: {error}") from error
        return found

    def _hit(
        self,
        row: dict[str, Any],
        score: float,
        view: int,
        views: list[tuple[int, View]],
        asked: Sequence[str],
        query: np.ndarray,
        number: int,
        explain: bool,
    ) -> Hit:
        every: tuple[ScoredView, ...] = ()
        if explain:
            scores = self.index.view_scores(query, number).tolist()
            every = tuple(
                self._scored(place, one, value, row, asked)
                for (place, one), value in zip(views, scores, strict=True)
            )
        return Hit(
            id=row["id"],
            title=row["title"],
            text=row["text"],
            score=score,
            best=self._scored(*views[view], score, row, asked),
            columns={name: value for name, value in row.items() if name not in SCHEMA.names},
            views=every,
        )

    def _scored(
        self, place: int, view: View, score: float, row: dict[str, Any], asked: Sequence[str]
    ) -> ScoredView:
        snippet = None
        if view.padding:
            snippet = ""
        elif view.span is not None:
            snippet = row["text"][slice(*view.span)]
        elif self._encoder.layout.has_spans:
            snippet = row["title"]
        return ScoredView(place + 1, score, view.span, snippet, asked[place] if asked else None)


def load(address: str, *, device: str = "auto", verify: bool = False) -> Retriever:
    """Returns the retriever of the index at `address`, `<store>/index/<key>`.

    The index's record names the model, the settings of the encoder and the passages. They are looked for in the
    index's store first, so that a store may be moved; nothing else that the index was made from is needed. Files of a
    bucket are copied and checked; files of a local store are checked by size, and by sha256 with `verify`. `device` is
    cpu, cuda or auto.

    Raises InputError, one line that says how to mend it, if there is no index at `address`, or if something that its
    record names is gone, short or altered.
    """
    store, record = load_record(address)
    if record.kind != names.INDEX:
        raise InputError(
            f"{address} is the address of an artifact of kind {record.kind}: search needs one of kind {names.INDEX}"
        )
    reader = f"index {address}"
    if missing := [name for name in ("model", "passages") if name not in record.inputs]:
        raise InputError(
            f"{reader}: it was written by an earlier version of multiview, and its record does not name its "
            f"{' and '.join(missing)}: build the index again, from the same embeddings"
        )
    model, corpus = (load_reference(record.inputs[name][0], reader, store) for name in ("model", "passages"))
    if find_spec("faiss") is None:
        extras = " or ".join(f"'{names.DISTRIBUTION}[{extra}]'" for extra in ("cpu", "gpu"))
        raise InputError(f"{reader} needs faiss: pip install {extras}")
    # Only now, so that what is wrong so far is said at once: importing torch takes seconds.
    from multiview.encoding.encode import Encoder
    from multiview.index.view_index import ViewIndex

    with _undamaged([(store, record)]):
        index = ViewIndex.load(stage(store, record, verify=verify).path)
    index.check_model(model[1].digest)
    settings = Encode.model_validate(
        record.config.get("encode", {}) | {"device": device, "batch_tokens": BATCH_TOKENS}
    )
    with _undamaged([model]):
        encoder = Encoder(stage(*model, verify=verify).path, settings, questions_only=True)
    with _undamaged([corpus]):
        passages = PassageRows(shard_files(stage(*corpus, verify=verify).path))
    if len(passages) != len(index):
        raise InputError(
            f"{reader}: it has {len(index)} passages, but its corpus {len(passages)}: build the index again"
        )
    return Retriever(address, index, encoder, passages, [corpus])


@contextlib.contextmanager
def _undamaged(sources: Iterable[tuple[Store, Record]]) -> Iterator[None]:
    """Reports damaged files as such: if reading artifacts fails, every byte of them is checked against its sha256."""
    try:
        yield
    except Exception:
        for store, record in sources:
            read_all(store, record)
        raise
