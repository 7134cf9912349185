"""The dense layers of a sentence-transformers base, which pooled vectors pass through before they are compared."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from multiview.config import DenseLayer
from multiview.errors import InputError
from multiview.model.base_model.files import CONFIG_FILE

DENSE_FILE = "dense.safetensors"
"""File with the dense layers of a saved model, beside its encoder."""


def read_dense(folder: Path, layers: Mapping[str, DenseLayer], width: int) -> nn.Sequential:
    """Returns the dense layers of the base in `folder`, one per sub-folder, for pooled vectors of length `width`.

    Raises InputError where the weights cannot be read, are quantised or do not match `layers`.
    """
    weights: dict[str, Tensor] = {}
    inputs = width
    for number, (name, layer) in enumerate(layers.items()):
        file = folder / name / "model.safetensors"
        try:
            saved = load_file(file)
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"model.base: cannot read {name}/{file.name} ({error}); save the model anew with sentence-transformers"
            ) from error
        if not all(value.is_floating_point() for value in saved.values()):
            raise InputError(f"model.base: {name}/{file.name} holds quantised weights; give the whole ones")
        config = json.loads((folder / name / CONFIG_FILE).read_bytes())
        meant = {"linear.weight": [layer.width, config.get("in_features")]}
        meant |= {"linear.bias": [layer.width]} if config.get("bias", True) else {}
        shapes = {key: list(value.shape) for key, value in saved.items()}
        if shapes != meant or config.get("in_features") != inputs:
            raise InputError(
                f"model.base: its dense layers are not those of its config.json files: {name} has {shapes} where they mean "
                f"{meant} for vectors of length {inputs}"
            )
        inputs = layer.width
        weights |= {f"{number}.{key}": value.float() for key, value in saved.items()}
    return make_dense(weights, layers.values(), width)


def make_dense(weights: Mapping[str, Tensor], layers: Iterable[DenseLayer], width: int) -> nn.Sequential:
    """Returns `layers` for vectors of length `width`, with `weights` named as in `DENSE_FILE`."""
    dense = nn.Sequential()
    for number, layer in enumerate(layers):
        linear = nn.Linear(width, layer.width, bias=f"{number}.linear.bias" in weights)
        dense.append(nn.Sequential(OrderedDict(linear=linear, activation=getattr(nn, layer.activation)())))
        width = layer.width
    dense.load_state_dict(weights)
    return dense
