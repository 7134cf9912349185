"""Names in settings that only a later step would find wrong, after hours of training."""

from __future__ import annotations

import re

from multiview.config import Config
from multiview.data.cjk import LANGUAGES
from multiview.data.sentences import PUNKT, tokenizer
from multiview.errors import InputError, nearest
from multiview.index.approximate import EXACT, FACTORY

DEVICE = re.compile(r"auto|cpu|(cuda|mps|xpu)(:[0-9]+)?")


def check_names(config: Config) -> None:
    """Raises InputError for a language, a kind of index or a device that no machine knows."""
    if config.corpus.language not in PUNKT | LANGUAGES:
        tokenizer(config.corpus.language)
    kind, kinds = config.index.kind, (EXACT, *FACTORY)
    if kind not in kinds and not kind[:1].isupper():
        raise InputError(
            f"index.kind: there is no {kind!r}{nearest(kind, kinds, kinds)}, or a faiss factory string"
        )
    if kind not in kinds:
        # Imports faiss, which no other kind needs before it is built.
        from multiview.index.approximate.kinds import check_factory

        check_factory(config.index)
    for section in ("encode", "index", "generation"):
        if not DEVICE.fullmatch(name := getattr(config, section).device):
            raise InputError(f"{section}.device: there is no device {name!r}; use auto, cpu or cuda")
