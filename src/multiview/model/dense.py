"""The dense layers of a sentence-transformers base, which pooled vectors pass through before they are compared."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from multiview.config import DenseLayer
from multiview.errors import InputError

DENSE_FILE = "dense.safetensors"
"""File with the dense layers of a saved model, beside its encoder."""


def read_dense(folder: Path, layers: Mapping[str, DenseLayer], width: int) -> nn.Sequential:
    """Returns the dense layers of the base in `folder`, one per sub-folder, for pooled vectors of length `width`.

    Raises InputError where the weights cannot be read, are quantised or do not match `layers`.
    """
    weights: dict[str, Tensor] = {}
    for number, name in enumerate(layers):
        file = folder / name / "model.safetensors"
        try:
            saved = load_file(file)
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"model.base: cannot read {name}/{file.name} ({error}); save the model anew with sentence-transformers"
            ) from error
        if not all(value.is_floating_point() for value in saved.values()):
            raise InputError(f"model.base: {name}/{file.name} holds quantised weights; give the whole ones")
        weights |= {f"{number}.{key}": value.float() for key, value in saved.items()}
    try:
        return make_dense(weights, layers.values(), width)
    except RuntimeError as error:
        problem = " ".join(str(error).split()).partition(": ")[2]
        raise InputError(
            f"model.base: its dense layers are not those of its config.json files ({problem})"
        ) from error


def make_dense(weights: Mapping[str, Tensor], layers: Iterable[DenseLayer], width: int) -> nn.Sequential:
    """Returns `layers` for vectors of length `width`, with `weights` named as in `DENSE_FILE`."""
    dense = nn.Sequential()
    for number, layer in enumerate(layers):
        linear = nn.Linear(width, layer.width, bias=f"{number}.linear.bias" in weights)
        dense.append(nn.Sequential(OrderedDict(linear=linear, activation=getattr(nn, layer.activation)())))
        width = layer.width
    dense.load_state_dict(weights)
    return dense
