"""The Dual Cross Encoder from queries to hits: a view a distinct query, the queries shown, the warm-up."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Encode, Train
from multiview.data.passages import Passage
from multiview.encoding.embeddings import Embeddings
from multiview.encoding.encode import Encoder, encode
from multiview.errors import InputError
from multiview.index.view_index import ViewIndex
from multiview.model.batch import Batch, make_batch
from multiview.model.encoder import BiEncoder
from multiview.steps.context import StepContext
from multiview.training.batches import Collator
from multiview.training.example_order import Example
from multiview.training.train import warm_up
from multiview.training.trainer import BiEncoderTrainer
from tests.fixtures import laid_out, training_material
from tests.fixtures.artifacts import write_index
from tests.fixtures.events import RecordedEvents
from tests.fixtures.written_queries import gathered_queries

PASSAGES = [training_material.passage(i, sentences=1 + i % 4) for i in range(20)]
QUERIES = {
    p.id: tuple(f"which {word} of number {i}" for word in ("king", "war", "king", "river")[: i % 5])
    for i, p in enumerate(PASSAGES)
}


@pytest.fixture(scope="module")
def model(base: Path, tmp_path_factory: pytest.TempPathFactory) -> LocalArtifact:
    folder = tmp_path_factory.mktemp("model") / "dual-cross"
    return training_material.saved_model(folder, base, architecture="dual-cross", tied=True)


def queries(folder: Path, passages: list[Passage] = PASSAGES) -> LocalArtifact:
    return gathered_queries([(p.id, QUERIES[p.id]) for p in passages], folder)


def encoded(model: LocalArtifact, folder: Path, passages: list[Passage], asked: LocalArtifact) -> Path:
    """A folder with the embeddings of passages that are read with the queries `asked`."""
    shard = training_material.write_shard(folder / "shard", passages)
    inputs, outputs = {"model": model, "passages": shard, "queries": asked}, {"embeddings": folder / "out"}
    (folder / "out").mkdir()
    settings = Config.partial({"encode": Encode(batch_tokens=512, device="cpu")})
    encode(StepContext(settings, inputs, outputs, RecordedEvents()))
    return folder / "out"


@pytest.fixture(scope="module")
def index(model: LocalArtifact, tmp_path_factory: pytest.TempPathFactory) -> ViewIndex:
    folder = tmp_path_factory.mktemp("index")
    write_index(folder / "index", encoded(model, folder, PASSAGES, queries(folder / "queries")))
    return ViewIndex.load(folder / "index")


def test_a_passage_has_a_view_a_distinct_query_or_one_of_its_own_text(
    model: LocalArtifact, index: ViewIndex
) -> None:
    encoder = BiEncoder.load(model.path)
    for number, passage in enumerate(PASSAGES):
        distinct = list(dict.fromkeys(QUERIES[passage.id]))
        assert index.view_counts[number] == max(1, len(distinct))
        assert index.queries([number]) == {number: tuple(QUERIES[passage.id])}, "as drawn"
        # Each view is [CLS] of the passage read with that query alone.
        for view, asked in enumerate([[query] for query in distinct] or [[]]):
            batch = make_batch(encoder.layout.passage(passage, asked), encoder.tokenizer.pad_token_id, 1)
            with torch.inference_mode():
                expected = encoder.encode_passages(batch)[0, 0].numpy()
            found = index.views_of(number)[view]
            np.testing.assert_allclose(found, expected, atol=2e-3)


def test_queries_of_another_corpus_are_refused(model: LocalArtifact, tmp_path: Path) -> None:
    asked = queries(tmp_path / "queries", PASSAGES[::-1])
    with pytest.raises(InputError, match="'p019' where passage 'p000' comes"):
        encoded(model, tmp_path, PASSAGES, asked)


def test_in_training_every_passage_of_a_question_is_read_with_that_question(model: LocalArtifact) -> None:
    encoder = BiEncoder.load(model.path)
    asked = [training_material.question(i, PASSAGES[i]) for i in (1, 2)]
    examples = [
        Example(asked[0], PASSAGES[1].id, (PASSAGES[5].id,)),
        Example(asked[1], PASSAGES[2].id, (PASSAGES[6].id,)),
    ]
    by_id = {p.id: p for p in PASSAGES}

    def sequences(with_question: bool) -> list[list[int]]:
        pad = encoder.tokenizer.pad_token_id
        collate = Collator(encoder.layout, pad, by_id, Train(), with_question=with_question)
        passages = collate(examples)["passages"]
        rows = [
            row[mask.bool()].tolist()
            for batch in cast(list[Batch], passages["batches"])
            for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        ]
        return [rows[position] for position in passages["order"]]

    pairs = [(1, 0), (2, 1), (5, 0), (6, 1)]  # positives in order, then negatives: passage, question
    for with_question in (True, False):
        expected = [
            encoder.layout.passage(PASSAGES[p], [asked[q].question] if with_question else [])[0].input_ids
            for p, q in pairs
        ]
        assert sequences(with_question) == expected


@pytest.mark.parametrize(
    ("architecture", "passage"), [("dual-cross", "with_query"), ("dual-cross", "plain"), ("dpr", "plain")]
)
def test_the_warm_up_trains_on_passages_alone_or_with_their_queries(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, passage: str
) -> None:
    """Both variants: the batches that the trainer gets in an epoch, and a model that moved."""
    seen, plain = set(), BiEncoderTrainer.compute_loss

    def looked_at(self, model, inputs, *others, **more):
        for batch in inputs["passages"]["batches"]:
            rows = zip(batch["input_ids"], batch["attention_mask"].sum(dim=1), strict=True)
            seen.update(tuple(row[:length].tolist()) for row, length in rows)
        return plain(self, model, inputs, *others, **more)

    monkeypatch.setattr(BiEncoderTrainer, "compute_loss", looked_at)
    start = training_material.saved_model(tmp_path / "start", base, architecture=architecture, tied=True)
    inputs = {
        "start": start,
        "passages": training_material.write_shard(tmp_path / "shard", PASSAGES),
        "queries": queries(tmp_path / "queries"),
    }
    chosen = {"batch_size": 8, "max_steps": 2, "warmup_steps": None, "learning_rate": 1e-3, "negatives": 7}
    train, events = Train.model_validate({**chosen, "warmup_passage": passage}), RecordedEvents()
    warm_up(StepContext(Config.partial({"train": train}), inputs, {"model": tmp_path / "model"}, events))
    first = {p: QUERIES[p.id][0] for p in PASSAGES if QUERIES[p.id]}
    without = len(PASSAGES) - len(first)
    assert events.facts["passages_without_queries"] == without == 4
    assert events.facts["questions"] == len(first)
    read = passage == "with_query"
    warned = [text for text in events.warnings if text.startswith("train.warmup_passage=with_query")]
    assert bool(warned) == read and Train().warmup_passage == "plain"
    before, after = BiEncoder.load(start.path), BiEncoder.load(tmp_path / "model")
    assert seen == {
        tuple(before.layout.passage(p, [asked] if read else [])[0].input_ids) for p, asked in first.items()
    }
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in pairs)


def test_questions_may_be_longer_in_evaluation_than_in_training(model: LocalArtifact) -> None:
    long = "king " * 60
    for length, tokens in ((None, 32), (48, 48)):
        encoder = Encoder(model.path, Encode(device="cpu", question_length=length))
        assert len(encoder.layout.question(long).input_ids) == tokens
        assert encoder.question_vectors([long]).shape == (1, encoder.dim)
    with pytest.raises(InputError, match=r"question_length: 4000 tokens, but the base model has"):
        Encoder(model.path, Encode(device="cpu", question_length=4000))


def test_a_shard_without_passages_has_the_columns_of_the_others(model: LocalArtifact, tmp_path: Path):
    """As where nothing of a corpus changed; the width is known without loading the model."""
    embeddings = Embeddings(encoded(model, tmp_path, [], LocalArtifact(tmp_path / "unread", "queries")))
    assert (embeddings.rows, embeddings.passages) == (0, 0)
    assert embeddings.dim == BiEncoder.load(model.path).dim
    assert "queries" in embeddings.table.column_names


WHOLE = (0, len(laid_out.PASSAGE.text))


def test_dual_cross_reads_the_passage_with_each_distinct_query(base: Path) -> None:
    made = laid_out.make(base, "dual-cross")
    sequences = made.passage(laid_out.PASSAGE, ["Who won?", "Where?", "Who won?"])
    assert [laid_out.tokens(made, sequence.input_ids) for sequence in sequences] == [
        "[CLS] who won ? [SEP] old e ##u ##r ##o ##p ##e the king won . it was in paris . queen . [SEP]",
        "[CLS] where ? [SEP] old e ##u ##r ##o ##p ##e the king won . it was in paris . queen . [SEP]",
    ]
    assert all(sequence.views == (laid_out.view((0, 1), span=WHOLE),) for sequence in sequences)
    (plain,) = made.passage(laid_out.PASSAGE)
    text = laid_out.tokens(made, plain.input_ids)
    assert text.startswith("[CLS] old e") and text.count("[SEP]") == 1
    assert made.passage(laid_out.PASSAGE, ["The king’s?"]) == made.passage(laid_out.PASSAGE, ["The king's?"])
    cut = laid_out.make(base, "dual-cross", passage_length=16)
    (sequence,) = cut.passage(laid_out.PASSAGE, ["king " * 5])
    assert laid_out.tokens(cut, sequence.input_ids) == (
        "[CLS] king king king king king [SEP] old e ##u ##r ##o ##p ##e the [SEP]"
    )
