"""The architectures by name. A new architecture is a file in this folder and an entry in `LAYOUTS`.

Nothing in this package needs torch, so settings can be checked before anything heavy is loaded.
"""

from multiview.config import Model, Temperature, Train
from multiview.errors import InputError, nearest
from multiview.model.layouts.base import Layout, PreTrainedTokenizer
from multiview.model.layouts.camvr import Camvr
from multiview.model.layouts.dpr import Dpr
from multiview.model.layouts.dual_cross import DualCross
from multiview.model.layouts.me_bert import MeBert
from multiview.model.layouts.meta import Meta
from multiview.model.layouts.mvr import Mvr
from multiview.model.layouts.parts import EqualSplits, Sentence
from multiview.model.layouts.sentence_transformer import SentenceTransformer

LAYOUTS: dict[str, type[Layout]] = {
    kind.name: kind
    for kind in (Dpr, MeBert, Mvr, Meta, Camvr, DualCross, Sentence, EqualSplits, SentenceTransformer)
}


def architecture(name: str) -> type[Layout]:
    """Returns the layout class called `name`. Raises InputError, with the nearest name, when there is none."""
    if name not in LAYOUTS:
        raise InputError(f"model.architecture: there is no {name!r}{nearest(name.lower(), LAYOUTS)}")
    return LAYOUTS[name]


def layout(settings: Model, tokenizer: PreTrainedTokenizer) -> Layout:
    """Returns the layout of a model's settings with its tokenizer, which must know the viewer tokens."""
    return architecture(settings.architecture)(settings, tokenizer)


def check(model: Model, train: Train) -> None:
    """Raises InputError where the settings of a model or of its training do not suit its architecture."""
    kind = architecture(model.architecture)
    kind.check(model)
    if train.positive != "max" and not kind.has_spans:
        raise InputError(
            f"train.positive: {train.positive} does not suit architecture {kind.name}, whose views represent no part of the text; "
            "use max"
        )
    if train.in_sequence_weight and train.positive == "max":
        raise InputError(
            "train.in_sequence_weight: with train.positive=max it would be the local loss: set train.local_weight "
            "instead, and this to 0"
        )
    if train.validate_steps is not None and kind.reads_queries:
        raise InputError(
            f"train.validate_steps: a validation reads passages alone, and architecture {kind.name} reads them with queries; "
            "set it to null"
        )
    if train.temperature.schedule == "annealed" and train.temperature.value != Temperature().value:
        raise InputError(
            "train.temperature.value: an annealed one has no value: set train.temperature.schedule=fixed too, or the value "
            f"back to {Temperature().value:g}"
        )
    if train.warmup_steps is not None and train.warmup_ratio != Train().warmup_ratio:
        raise InputError(
            "train.warmup_ratio: train.warmup_steps comes before it: set train.warmup_steps=null too, or the ratio back to "
            f"{Train().warmup_ratio:g}"
        )
    if not train.negatives and 1 in (train.batch_size, train.negative_group):
        alone = "batch_size" if train.batch_size == 1 else "negative_group"
        raise InputError(
            f"train.negatives: 0 with train.{alone}=1 leaves a question no negative to learn from; raise one of them"
        )
    if train.validate_steps is None and train.patience is not None:
        raise InputError(
            "train.patience counts validations, and there are none: set train.validate_steps too, or this to null"
        )
