"""Attention within packed sequences: torch's own, and with dropout the plain formula over the same draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from multiview.model.attention import attend_within
from multiview.model.dropout import draw_kept, share_kept

LENGTHS = [5, 1, 12, 7]
TOKENS, HEADS, SIZE = 28, 3, 8
"""Three tokens are filler."""


def states(dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    """Query, key and value [1, H, T, d], as views of a layer's output."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(3, 1, TOKENS, HEADS * SIZE, generator=generator, dtype=torch.float64).to(dtype)
    return [each.unflatten(-1, (HEADS, SIZE)).transpose(1, 2).requires_grad_() for each in rows]


def plain(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """Attention of one sequence after the other, by the formula."""
    attended = torch.zeros_like(query)
    start = 0
    for length in LENGTHS:
        within = (slice(None), slice(None), slice(start, start + length))
        weights = torch.softmax(query[within] @ key[within].transpose(2, 3) / SIZE**0.5, dim=-1)
        if dropout:
            weights = weights * draw_kept(weights[0], dropout) / share_kept(dropout)
        attended[within] = weights @ value[within]
        start += length
    return attended


def with_gradients(attention: Callable[..., Tensor], given: list[Tensor], *options: object) -> list[Tensor]:
    """The attended values and the gradients of query, key and value."""
    torch.manual_seed(3)
    attended = attention(*given, *options)
    probe = states(given[0].dtype, seed=1)[0].detach()
    return [attended.detach(), *torch.autograd.grad((attended * probe).sum(), given)]


@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_values_and_gradients_are_those_of_the_formula(
    dropout: float, dtype: torch.dtype, near: float
) -> None:
    given = states(dtype)
    expected = with_gradients(plain, [each.detach().double().requires_grad_() for each in given], dropout)
    found = with_gradients(attend_within, given, LENGTHS, dropout)
    for value, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(value.double(), exact, rtol=near, atol=near)
    for value in found:
        assert not value[:, :, sum(LENGTHS) :].any()


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_bfloat16_is_as_near_to_the_formula_as_its_numbers_allow(dropout: float) -> None:
    given = states(torch.bfloat16)
    expected = with_gradients(plain, [each.detach().double().requires_grad_() for each in given], dropout)
    with torch.autocast("cpu", torch.bfloat16):
        found = with_gradients(attend_within, given, LENGTHS, dropout)
    for value, exact in zip(found, expected, strict=True):
        assert value.dtype == torch.bfloat16
        torch.testing.assert_close(value.double(), exact, rtol=0.02, atol=0.03)


def test_in_inference_float32_is_torchs_own_to_the_bit() -> None:
    query, key, value = states(torch.float32)
    with torch.no_grad():
        attended = attend_within(query, key, value, LENGTHS)
        start = 0
        for length in LENGTHS:
            within = (slice(None), slice(None), slice(start, start + length))
            alone = scaled_dot_product_attention(query[within], key[within], value[within])
            assert torch.equal(attended[within], alone)
            start += length
    assert not attended[:, :, start:].any()


@pytest.mark.parametrize("amx", [False, True])
def test_in_inference_bfloat16_is_as_near_with_torchs_kernel_as_in_parts(
    amx: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    given = [each.detach() for each in states(torch.bfloat16)]
    query, key, value = given
    expected = plain(query.double(), key.double(), value.double(), 0.0)
    attended = attend_within(query, key, value, LENGTHS)
    torch.testing.assert_close(attended.double(), expected, rtol=0.01, atol=0.01)
    assert not attended[:, :, sum(LENGTHS) :].any()


@pytest.mark.parametrize("alike", [60.0, -60.0])
def test_scores_beyond_the_powers_of_two_of_float32_are_weighed_as_the_formula_does(
    alike: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a sequence's are far above zero, or far below, where a sum of powers would be infinite, or zero."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    query, key, value = (each.detach() for each in states(torch.bfloat16))
    query, key = query + 60, key + alike
    expected = plain(query.double(), key.double(), value.double(), 0.0)
    attended = attend_within(query, key, value, LENGTHS)
    torch.testing.assert_close(attended.double(), expected, rtol=0.01, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_queries_attend_as_they_do_among_all_whatever_the_threads(dtype: torch.dtype) -> None:
    query, key, value = states(dtype)
    asked, starts = [2, 1, 3, 1], [0, 5, 6, 18]
    rows = [start + number for start, count in zip(starts, asked, strict=True) for number in range(count)]
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            with torch.inference_mode():
                found.append(attend_within(query[:, :, rows], key, value, LENGTHS, asked=asked))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)
    with torch.inference_mode():
        whole = attend_within(query, key, value, LENGTHS)[:, :, rows]
    error = 2.0**-20 if dtype == torch.float32 else 2.0**-7
    torch.testing.assert_close(found[0], whole, rtol=0, atol=error * value.abs().max().item())
