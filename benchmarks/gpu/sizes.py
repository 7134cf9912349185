"""The numbers of each size of the GPU's benchmarks, and the models of random weights that they use."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from transformers import BertConfig, BertModel, BertTokenizer

from benchmarks.encoding import MINILM, read
from benchmarks.table import squad_folder
from multiview.config import Model
from multiview.data.passages import Passage
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.base_model.loading import load_tokenizer
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import PreTrainedTokenizer

SizeName = Literal["tiny", "small", "whole"]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MINILM_SHAPE, BERT_SHAPE = "MiniLM's shape", "BERT-base's shape"
SHAPES: dict[str, dict[str, Any]] = {
    MINILM_SHAPE: {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    BERT_SHAPE: {},
}
TINY_SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
"""Stands for any shape at size tiny."""
VOCABULARY = 30_522
"""Word pieces of BERT."""


class Searched(NamedTuple):
    """Views that are searched."""

    views: int
    group: int
    """Views per passage."""
    dim: int
    uneven: bool = False
    """Whether `group` is only an average, as when passages have as many views as sentences."""


@dataclass(frozen=True)
class Size:
    """The numbers of a size."""

    passages: int
    """Passages that are encoded."""
    questions: int
    """Questions of a training step; each has two passages."""
    steps: int
    window: int
    """Training steps that are timed together; those of the first window are not counted."""
    chunk: int
    squad: Searched
    large: Searched
    wide: Searched
    mined: int
    """Passages of eight views that are mined and evaluated."""
    asked: int
    """Most questions of a search."""
    repeats: int = 3
    seconds: float = 6.0
    """Seconds after which a row's contestants are not repeated."""


SIZES: dict[SizeName, Size] = {
    "tiny": Size(
        96, 4, 3, 1, 4, Searched(600, 6, 16, True), Searched(4_000, 8, 16), Searched(500, 1, 32), 300, 20, 1
    ),
    "small": Size(
        4_096,
        64,
        40,
        10,
        32,
        Searched(118_602, 6, 384, True),
        Searched(1_000_000, 8, 384),
        Searched(400_000, 1, 768),
        100_000,
        1000,
        2,
        2.0,
    ),
    "whole": Size(
        20_958,
        128,
        50,
        10,
        64,
        Searched(118_602, 6, 384, True),
        Searched(10_000_000, 8, 384),
        Searched(4_000_000, 1, 768),
        1_000_000,
        1000,
    ),
}


@dataclass
class Given:
    """What all rows are measured with."""

    name: SizeName
    tokenizer_folder: Path | None
    """Folder with the tokenizer; None: MiniLM's if its package is installed, else one made from the passages."""
    folder: Path
    """Temporary files."""

    @property
    def size(self) -> Size:
        return SIZES[self.name]

    @cached_property
    def data(self) -> Path:
        return squad_folder()

    @cached_property
    def passages(self) -> list[Passage]:
        return read(self.data, self.size.passages)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizer:
        if self.tokenizer_folder is not None:
            return load_tokenizer(self.tokenizer_folder)
        if find_spec(MINILM.removeprefix("package:")):
            with staged_base(MINILM) as folder:
                return load_tokenizer(folder)
        return word_pieces([f"{passage.title} {passage.text}" for passage in self.passages])

    def base(self, shape: str) -> Path:
        """The folder of a base model of random weights."""
        folder = self.folder / shape.partition("'")[0]
        if not folder.exists():
            torch.manual_seed(0)
            sizes = TINY_SHAPE if self.name == "tiny" else SHAPES[shape]
            config = BertConfig(vocab_size=len(self.tokenizer), **sizes)
            BertModel(config).save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        return folder

    def model(self, shape: str, architecture: str, **settings: Any) -> Path:
        """The folder of a bi-encoder on such a base."""
        base = self.base(shape)
        folder = base.parent / f"{base.name}-{architecture}"
        if not folder.exists():
            chosen = {"base": str(base), "architecture": architecture, "normalise": True, "tied": True}
            BiEncoder.create(Model.model_validate(chosen | settings)).save(folder)
        return folder


@contextmanager
def given(name: SizeName, tokenizer: Path | None) -> Iterator[Given]:
    """What rows of a size are measured with, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="multiview-gpu-") as folder:
        yield Given(name, tokenizer, Path(folder))


def word_pieces(texts: Sequence[str]) -> PreTrainedTokenizer:
    """A tokenizer like BERT's, of as many word pieces, made from texts."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # pyright: ignore[reportCallIssue]
    made.normalizer = normalizers.BertNormalizer()  # pyright: ignore[reportAttributeAccessIssue]
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=special, show_progress=False, continuing_subword_prefix="##"
    )
    made.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=made.get_vocab(), model_max_length=512)  # pyright: ignore[reportReturnType]


def clock() -> float:
    """Seconds, read once a GPU has done all its work."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
