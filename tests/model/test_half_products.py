"""Products of bfloat16 on processors without instructions for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from multiview.config import Model
from multiview.model import half_products, plain
from multiview.model.batch import make_packed
from multiview.model.encoder import BiEncoder
from tests.fixtures.tiny import tiny_bert

CPU = torch.device("cpu")
HALF = torch.bfloat16


@pytest.fixture(autouse=True)
def without_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (half_products, plain):
        monkeypatch.setattr(module, "multiplies", lambda dtype: dtype == torch.float32)


class Seen(TorchDispatchMode):
    """What reaches torch: each product's name and the types of its numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[str, set[torch.dtype]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if any(word in name for word in ("mm", "linear", "matmul", "attention")):
            self.products.append((name, {each.dtype for each in args if isinstance(each, Tensor)}))
        return func(*args, **(kwargs or {}))


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


PRODUCTS: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "matrices": (torch.mm, [drawn(5, 7), drawn(7, 3)]),
    "batches": (torch.bmm, [drawn(2, 5, 7), drawn(2, 7, 3)]),
    "linear": (linear, [drawn(2, 5, 7), drawn(3, 7), drawn(3)]),
    "linear without bias": (linear, [drawn(5, 7), drawn(3, 7)]),
    "matmul": (torch.matmul, [drawn(2, 4, 5, 7), drawn(2, 4, 7, 3)]),
    "attention": (scaled_dot_product_attention, [drawn(1, 2, 5, 8), drawn(1, 2, 5, 8), drawn(1, 2, 5, 8)]),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_float32_rounded_and_so_are_their_gradients(name: str, inference: bool) -> None:
    product, given = PRODUCTS[name]

    def results(dtype: torch.dtype) -> list[Tensor]:
        """The product, then the gradients; in float32 of the numbers that bfloat16 has."""
        inputs = [each.to(HALF).to(dtype) for each in given]
        if inference:
            with torch.inference_mode():
                return [product(*inputs)]
        inputs = [each.requires_grad_() for each in inputs]
        found = product(*inputs)
        found.float().sum().backward()
        return [found.detach(), *(each.grad for each in inputs if each.grad is not None)]

    with Seen() as seen, half_products.half_products(CPU, half=True):
        found = results(HALF)
    assert seen.products and all(HALF not in types for _, types in seen.products), seen.products
    for ours, expected in zip(found, results(torch.float32), strict=True):
        assert ours.dtype == HALF
        assert torch.allclose(ours.float(), expected, rtol=2**-7, atol=2**-7 * float(expected.abs().max()))


@pytest.mark.parametrize("compute", ["autocast", "bfloat16"])
def test_no_product_of_a_model_is_computed_in_bfloat16(tmp_path: Path, compute: str) -> None:
    BiEncoder.create(Model(base=str(tiny_bert(tmp_path / "base")), architecture="dpr")).save(
        tmp_path / "model"
    )
    dtype = HALF if compute == "bfloat16" else torch.float32
    model = BiEncoder.load(tmp_path / "model", dtype, plain=True)
    batch = make_packed([model.layout.question(text) for text in ("Who built it?", "When?")], 0, 64)
    with Seen() as seen, half_products.half_products(CPU, half=True):
        with torch.autocast("cpu", HALF, enabled=compute == "autocast"):
            vectors = torch.cat(model.encode_packed_questions(batch))
        if compute == "autocast":
            vectors.float().square().sum().backward()
    assert seen.products and all(HALF not in types for _, types in seen.products), seen.products


def test_elsewhere_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_active(device: str, half: bool) -> bool:
        return isinstance(half_products.half_products(torch.device(device), half), TorchDispatchMode)

    assert is_active("cpu", half=True)
    assert not is_active("cuda", half=True) and not is_active("cpu", half=False)
    monkeypatch.setattr(half_products, "multiplies", lambda dtype: True)
    assert not is_active("cpu", half=True)
