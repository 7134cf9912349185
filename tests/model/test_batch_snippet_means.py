"""Viewer tokens that start from their snippets, beside the equation in float64, one token at a time."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from multiview.model.base_model.loading import LoadedModel, embedding_matrix
from multiview.model.batch import add_snippet_means, make_batch, make_groups
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import TokenSequence, View
from tests.fixtures import training_material
from tests.fixtures.encoded import settings


def with_learned_viewers(model: BiEncoder) -> list[int]:
    """Gives the viewer tokens embeddings, as training does; returns their ids."""
    ids = model.tokenizer.convert_tokens_to_ids(["[VIE]", *(f"[VIE{i}]" for i in range(1, 5))])
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for encoder in model.encoders.values():
            weight = embedding_matrix(encoder)
            weight[ids] = torch.randn(len(ids), weight.shape[1], generator=draw) * 0.1
    return ids


def plain_views(encoder: LoadedModel, ids: list[int], viewers: list[int], pooling: str) -> list[Tensor]:
    """The views of one sequence: a viewer token, then the tokens of its snippet up to the next one or the last token."""
    table = encoder.get_input_embeddings().weight
    embedded, views = [table[token] for token in ids], []
    starts = [place for place, token in enumerate(ids) if token in viewers]
    for start, stop in zip(starts, [*starts[1:], len(ids) - 1], strict=True):
        if snippet := [table[token] for token in ids[start + 1 : stop]]:
            embedded[start] = embedded[start] + sum(snippet) / len(snippet)
    hidden = encoder(inputs_embeds=torch.stack(embedded)[None]).last_hidden_state[0]
    for start, stop in zip(starts, [*starts[1:], len(ids) - 1], strict=True):
        view = hidden[start]
        if pooling == "both" and stop > start + 1:
            view = view + hidden[start + 1 : stop].mean(0)
        views.append(view)
    return views


def plain_question(encoder: LoadedModel, ids: list[int], pooling: str) -> Tensor:
    """The vector of a question, which is the snippet of its first token; the whole sequence is pooled."""
    table = encoder.get_input_embeddings().weight
    embedded = [table[token] for token in ids]
    embedded[0] = embedded[0] + sum(embedded[1:-1]) / len(embedded[1:-1])
    hidden = encoder(inputs_embeds=torch.stack(embedded)[None]).last_hidden_state[0]
    return hidden[0] if pooling == "viewer" else hidden[0] + hidden.mean(0)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("pooling", ["viewer", "both"])
def test_views_questions_and_their_gradients_are_those_of_the_equation(
    base: Path, pooling: str, again: bool
) -> None:
    model = BiEncoder.create(settings(base, init="snippet-mean", pooling=pooling))
    model.encode_again = again
    viewers = with_learned_viewers(model)
    exact = copy.deepcopy(model).double()
    # Passages of 1 to 6 sentences and 4 snippets: some are empty, some are several sentences.
    passages = [training_material.passage(i, sentences=1 + i % 6) for i in range(7)]
    sequences = [model.layout.passage(passage)[0] for passage in passages]
    questions = [model.layout.question("Who won the war " * (1 + i)) for i in range(3)]
    pad = model.tokenizer.pad_token_id
    asked, views = model(
        make_groups(questions, pad, 1, most=2), make_groups(sequences, pad, 4, group_cost=20, most=3)
    )

    expected = torch.stack(
        [
            torch.stack(plain_views(exact.encoders["passage"], sequence.input_ids, viewers, pooling))
            for sequence in sequences
        ]
    )
    expected_questions = torch.stack(
        [plain_question(exact.encoders["question"], sequence.input_ids, pooling) for sequence in questions]
    )
    assert any(view.padding for sequence in sequences for view in sequence.views)
    torch.testing.assert_close(views.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(asked.double(), expected_questions, rtol=1e-4, atol=1e-5)

    direction = torch.randn(views.shape, generator=torch.Generator().manual_seed(1))
    ((views * direction).sum() + asked.sum()).backward()
    ((expected * direction).sum() + expected_questions.sum()).backward()
    gradients = {name: parameter.grad for name, parameter in exact.named_parameters()}
    largest = max(gradient.abs().max().item() for gradient in gradients.values() if gradient is not None)
    for name, parameter in model.named_parameters():
        found, gradient = parameter.grad, gradients[name]
        assert found is not None and gradient is not None, name
        torch.testing.assert_close(found.double(), gradient, rtol=1e-3, atol=1e-5 * largest)
    learned = embedding_matrix(model.encoders["passage"]).grad
    assert learned is not None and learned[viewers[1:]].any(dim=1).all()


def test_the_viewers_own_embeddings_start_at_zero(base: Path) -> None:
    model = BiEncoder.create(settings(base, init="snippet-mean"))
    ids = model.tokenizer.convert_tokens_to_ids(["[VIE]", *(f"[VIE{i}]" for i in range(1, 5))])
    assert not embedding_matrix(model.encoders["passage"])[ids].any()
    batch = make_batch([TokenSequence([9, 20, 21], (View(((0, 1),)),), None, ((1, 3),))], 0, 1)
    assert "viewers" in batch and "snippets" in batch
    words = torch.tensor([[[0.0, 0.0], [1.0, 4.0], [3.0, 0.0]]])
    started = add_snippet_means(words, batch["viewers"], batch["snippets"])
    assert started.tolist() == [[[2, 2], [1, 4], [3, 0]]]
