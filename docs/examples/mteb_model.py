"""A model of multiview on MTEB's tasks: MTEB gives the corpus and the questions, the model ranks, and MTEB measures.

python docs/examples/mteb_model.py store/model/KEY SciFact NFCorpus
"""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer

from multiview import names
from multiview.artifacts.record import describe_files, digest_of, load_record, load_reference
from multiview.artifacts.scratch import scratch
from multiview.artifacts.staging import stage
from multiview.config import JsonObject
from multiview.config.overrides import merge, validate
from multiview.data.passages import Passage
from multiview.data.sentences import sentence_ends
from multiview.encoding.embeddings import Embeddings, EmbeddingsWriter
from multiview.encoding.encode import Encoder, encode_passages
from multiview.errors import InputError
from multiview.index.stored_views import LONGEST_VIEW, longest_view
from multiview.index.view_index import ViewIndex
from multiview.model.encoder import load_settings
from multiview.model.layouts import architecture

Rows = Iterable[Mapping[str, Any]]
"""Rows of a data set of MTEB: passages `id, title, text`, or questions `id, text`."""


class MtebModel:
    """A model as MTEB runs it, by the methods of `mteb.models.SearchProtocol`.

    The corpus is encoded in views, and a passage's score is the max over its views, searched exactly. MTEB's
    `batch_size` and `precision` mean nothing here: `encode` has our settings. Questions begin with
    the model's prompt, and then with their instruction, where a task has some.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        device: str = "auto",
        language: str = "english",
        encode: JsonObject | None = None,
    ) -> None:
        """Loads `model`: the address of a model, or of an index with its model and its settings of `encode`; or a folder
        with the files of a model.

        `name` is what MTEB's results are filed under, beside the model's digest as their revision; by default
        `multiview/ARCHITECTURE`. `language` is that of NLTK's sentence splitter, and `encode` has settings of that
        section, as in `{"compute": "bfloat16"}`. Raises InputError for an address of anything else.
        """
        folder, self.digest, settings = _found(model)
        overrides = merge({"encode": settings}, {"encode": encode or {}}, {"encode": {"device": device}})
        self._encoder = Encoder(folder, validate(overrides).encode)
        self._language = language
        self.name = name or f"multiview/{self._encoder.layout.name}"
        self._index: ViewIndex | None = None

    @cached_property
    def mteb_model_meta(self) -> Any:
        """MTEB's description of the model, an `mteb.models.ModelMeta`. Needs the extra `mteb`."""
        from mteb.models.model_meta import (  # pyright: ignore[reportMissingImports]
            ModelMeta,
            ScoringFunction,
        )

        described = {
            "name": self.name,
            "revision": self.digest,
            "embed_dim": self._encoder.dim,
            "max_tokens": self._encoder.layout.settings.passage_length,
            "n_parameters": sum(each.numel() for each in self._encoder.model.parameters()),
            "framework": ["PyTorch"],
            "similarity_fn_name": ScoringFunction.DOT_PRODUCT,
            "experiment_kwargs": {**self._encoder.settings.key_settings(), "language": self._language},
        }
        return ModelMeta.create_empty(described)

    def index(self, corpus: Rows, **_: object) -> None:
        """Encodes the passages of `corpus`, which replaces an earlier one. What MTEB says about the task is not needed.

        A passage without text is read by its title, and one without either is not found.
        """
        encoder = self._encoder
        # The views stay mapped into memory when the folder is gone.
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            with EmbeddingsWriter(Path(folder), encoder.dim, self.digest) as writer:
                encode_passages(encoder, zip(self._passages(corpus), repeat(())), writer)
            embeddings = Embeddings(Path(folder))
            table = embeddings.table
        self._index = ViewIndex(
            embeddings.views,
            table["id"].combine_chunks(),
            table["offset"].to_numpy(),
            table["views"].to_numpy().astype(np.int64),
            {"model": self.digest, LONGEST_VIEW: longest_view(embeddings.views)},
            device=str(encoder.device),
        )

    def search(
        self, queries: Rows, *, top_k: int, top_ranked: Mapping[str, Sequence[str]] | None = None, **_: object
    ) -> dict[str, dict[str, float]]:
        """Returns the `top_k` best passages of each question with their scores; of its `top_ranked` alone, if they are given.

        Raises InputError for questions that are no text, such as conversations.
        """
        if self._index is None:
            raise RuntimeError("index a corpus first")
        texts = {str(row["id"]): _question(row) for row in queries}
        vectors = self._encoder.question_vectors(list(texts.values()))
        if top_ranked is not None:
            return {
                qid: self._reranked(self._index, vector, top_ranked.get(qid, ()), top_k)
                for qid, vector in zip(texts, vectors, strict=True)
            }
        top = self._index.search(vectors, max(1, top_k))
        return {
            qid: {self._index.passage_id(row): score for row, score, _ in top.hits(question)}
            for question, qid in enumerate(texts)
        }

    def _reranked(self, index: ViewIndex, vector: np.ndarray, ids: Sequence[str], k: int) -> dict[str, float]:
        rows = pc.index_in(pa.array(ids, pa.string()), index.ids).fill_null(-1).to_numpy()
        scores, _ = index.pair_scores(vector[None], np.zeros(len(rows), np.int64), rows)
        best = np.argsort(-scores, kind="stable")[:k]
        return {ids[place]: float(scores[place]) for place in map(int, best) if np.isfinite(scores[place])}

    def _passages(self, corpus: Rows) -> Iterator[Passage]:
        for row in corpus:
            title, text = row.get("title") or "", row.get("text") or ""
            if not text.strip():
                title, text = "", title
            if text.strip():
                yield Passage(str(row["id"]), title, text, sentence_ends(text, self._language))


def _question(row: Mapping[str, Any]) -> str:
    """Returns a question's text behind its instruction, as a prompt stands before it."""
    if not isinstance(row["text"], str):
        raise InputError(
            f"question {row['id']} is no text: tasks of conversations or images do not suit these models"
        )
    return " ".join(filter(None, [row.get("instruction"), row["text"]]))


def _found(model: str) -> tuple[Path, str, JsonObject]:
    """Returns a model's folder, its digest, and its settings of `encode`: those of an index, else its architecture's."""
    if ((folder := Path(model)) / "multiview.json").is_file():
        return folder, digest_of(describe_files(folder)), _defaults(folder)
    store, record = load_record(model)
    if record.kind == names.INDEX:
        store, made_by = load_reference(record.inputs[names.MODEL][0], f"index {model}", store)
        return stage(store, made_by).path, made_by.digest, record.config.get("encode", {})
    if record.kind != names.MODEL:
        raise InputError(
            f"{model} is the address of an artifact of kind {record.kind}: give a model's or an index's"
        )
    folder = stage(store, record).path
    return folder, record.digest, _defaults(folder)


def _defaults(folder: Path) -> JsonObject:
    return merge(architecture(load_settings(folder).architecture).defaults).get("encode", {})


def main(model: str, tasks: list[str], name: Annotated[str | None, typer.Option()] = None) -> None:
    """Evaluate a model on some of MTEB's tasks."""
    import mteb  # pyright: ignore[reportMissingImports]

    print(mteb.evaluate(MtebModel(model, name=name), mteb.get_tasks(tasks=tasks)).to_dataframe())


if __name__ == "__main__":
    typer.run(main)
