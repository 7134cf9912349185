"""The dense layers of a sentence-transformers base: what its pooled vectors pass before they are compared."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from multiview.config import DenseLayer
from multiview.errors import InputError

DENSE_FILE = "dense.safetensors"
"""The layers of a saved model, beside its encoder."""


def read_dense(
    folder: Path, folders: Sequence[str], layers: Sequence[DenseLayer], width: int
) -> nn.Sequential:
    """Returns the dense layers of the base in `folder`, one per sub folder, behind vectors of length `width`.

    Raises InputError where the weights are not those of such layers.
    """
    weights: dict[str, Tensor] = {}
    for number, name in enumerate(folders):
        file = folder / name / "model.safetensors"
        try:
            weights |= {f"{number}.{key}": value.float() for key, value in load_file(file).items()}
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"model.base: cannot read {name}/{file.name} ({error}); save the model anew with sentence-transformers"
            ) from error
    return _dense(weights, layers, width)


def load_dense(folder: Path, layers: Sequence[DenseLayer], width: int) -> nn.Sequential:
    """Returns the layers that `save_dense` wrote into `folder`."""
    return _dense(load_file(folder / DENSE_FILE), layers, width)


def save_dense(dense: nn.Module, folder: Path) -> None:
    """Writes the layers' weights into `folder`."""
    save_file({name: tensor.contiguous() for name, tensor in dense.state_dict().items()}, folder / DENSE_FILE)


def _dense(weights: dict[str, Tensor], layers: Sequence[DenseLayer], width: int) -> nn.Sequential:
    widths = [width, *(layer.width for layer in layers)]
    dense = nn.Sequential(
        *(
            nn.Sequential(
                OrderedDict(
                    linear=nn.Linear(widths[number], layer.width, f"{number}.linear.bias" in weights),
                    activation=getattr(nn, layer.activation)(),
                )
            )
            for number, layer in enumerate(layers)
        )
    )
    try:
        dense.load_state_dict(weights)
    except RuntimeError as error:
        problem = " ".join(str(error).split()).partition(": ")[2]
        raise InputError(
            f"model.base: its dense layers are not those of its config.json files ({problem})"
        ) from error
    return dense
