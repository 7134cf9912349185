"""A sentence-transformers module for models that the library's own modules cannot express. Needs that library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import InputModule
from torch.nn.utils.rnn import pad_sequence

from multiview.data.passages import Passage
from multiview.data.sentences import sentence_ends
from multiview.errors import InputError
from multiview.model.batch import Batch, make_batch
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import kept_views


class ViewEncoder(InputModule):
    """Questions and passages in, one vector per question and one per view of a passage out. A passage is a text, or a
    dict with `text`, and `title`, `sentence_ends` and `queries` where it has them; without `sentence_ends` its text is
    split into sentences as the step `split` does it."""

    config_file_name = "config.json"
    config_keys = ["language", "padding_views", "question_length"]

    def __init__(
        self,
        encoder: BiEncoder,
        language: str = "english",
        padding_views: bool = False,
        question_length: int | None = None,
    ) -> None:
        """`language` is that of sentences, as `corpus.language`; `padding_views` is `encode.index_padding_views`;
        `question_length` is in tokens, by default the model's."""
        super().__init__()
        if question_length is not None:
            encoder.layout.lengthen_questions(question_length, encoder.positions)
        self.encoder = encoder
        self.tokenizer = encoder.tokenizer
        self.language = language
        self.padding_views = padding_views
        self.question_length = question_length

    @property
    def max_seq_length(self) -> int:
        """Longest passage in tokens."""
        return self.encoder.settings.passage_length

    def get_embedding_dimension(self) -> int:
        """Length of the vectors."""
        return self.encoder.dim

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, task: str | None = None, **_: object
    ) -> dict[str, Any]:
        """Returns questions (`task` is "query") or passages as a batch; `prompt` replaces the model's own."""
        layout = self.encoder.layout
        if prompt is not None:
            own = {"question_prompt": prompt, "passage_prompt": prompt}
            layout = type(layout)(layout.settings.model_copy(update=own), self.tokenizer)
        if task == "query":
            laid_out = [[layout.question(_text(each))] for each in inputs]
        else:
            laid_out = [layout.passage(*self._passage(each)) for each in inputs]
        sequences = [sequence for each in laid_out for sequence in each]
        most = 1 if task == "query" else layout.max_views
        kept = torch.zeros(len(sequences), most, dtype=torch.bool)
        for row, sequence in zip(kept, sequences, strict=True):
            row[kept_views(sequence.views, self.padding_views)] = True
        views = torch.tensor([int(rows.sum()) for rows in kept.split([len(each) for each in laid_out])])
        batch = make_batch(sequences, self.encoder.tokenizer.pad_token_id, most)
        return {**batch, "kept": kept, "views": views, "task": task or "document"}

    def forward(self, features: dict[str, Any], **_: object) -> dict[str, Any]:
        """Adds `token_embeddings` [B, V, D]; `attention_mask` [B, V] now says which of these vectors are no padding."""
        batch: Any = {name: features[name] for name in Batch.__annotations__ if name in features}
        if features["task"] == "query":
            vectors = self.encoder.encode_questions(batch)[:, None]
        else:
            vectors = self.encoder.encode_passages(batch)
        each = list(vectors[features["kept"]].split(features["views"].tolist()))
        there = [torch.ones(len(views), dtype=torch.bool, device=views.device) for views in each]
        features["token_embeddings"] = pad_sequence(each, batch_first=True)
        features["attention_mask"] = pad_sequence(there, batch_first=True)
        return features

    def save(self, output_path: str, *_: object, **__: object) -> None:
        """Writes the model and the settings of this module."""
        self.encoder.save(Path(output_path))
        self.save_config(output_path)

    @classmethod
    def load(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, model_name_or_path: str, subfolder: str = "", **options: Any
    ) -> ViewEncoder:
        """Loads the module from a folder, or from the hub, where `options` say how to fetch it."""
        fetched = ("token", "cache_folder", "revision", "local_files_only")
        where: dict[str, Any] = {name: options[name] for name in fetched if name in options}
        where["subfolder"] = subfolder
        folder = cls.load_dir_path(model_name_or_path, **where)
        if folder is None:
            raise InputError(f"{model_name_or_path} has no folder {subfolder or '.'}: export the model again")
        return cls(BiEncoder.load(Path(folder)), **cls.load_config(model_name_or_path, **where))

    def _passage(self, given: str | Mapping[str, Any]) -> tuple[Passage, Sequence[str]]:
        fields: dict[str, Any] = {"text": given} if isinstance(given, str) else dict(given)
        text, title = _text(fields.get("text")), _text(fields.get("title") or "")
        given_ends = fields.get("sentence_ends")
        ends = tuple(given_ends or ())
        if given_ends is None and self.encoder.layout.reads_sentences:
            ends = sentence_ends(text, self.language)
        return Passage("", title, text, ends), fields.get("queries", ())


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise InputError(
            f"{given!r} is no text: give texts, and passages as texts or as dicts with title and text"
        )
    return given
