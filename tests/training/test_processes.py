"""Training on several processes is training on one: losses, gradients, weights."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Questions, Train
from multiview.errors import InputError
from multiview.model.encoder import BiEncoder
from multiview.negatives.cross_encoder import write_teacher
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from multiview.training.batches import Collator, excluded_passages, passage_ids, passage_order, shares
from multiview.training.example_order import Example
from multiview.training.processes import RemoteEvents, on_processes
from multiview.training.train import train
from multiview.training.trainer import check_processes
from tests.fixtures import training_material
from tests.fixtures.bases import random_base
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.written_queries import gathered_queries
from tests.training import watched

SHORT: dict[str, Any] = {
    "batch_size": 5,
    "epochs": 4,
    "learning_rate": 1e-3,
    "warmup_steps": 1,
    "max_steps": 3,
    "max_grad_norm": 0.5,
    "negatives": 2,
    "dropout": 0.0,
}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "warm-up": ({"architecture": "dual-cross", "tied": True}, {"negative_group": 2}),
    "mvr": ({"architecture": "mvr"}, {"local_weight": 0.1}),
    "camvr": ({"architecture": "camvr"}, {"positive": "answer", "gradient_checkpointing": True}),
    "tied": ({"architecture": "camvr", "tied": True}, {"positive": "answer"}),
    "dual-cross": ({"architecture": "dual-cross", "tied": True}, {"negative_group": 2}),
    "chunks": ({"architecture": "camvr"}, {"positive": "answer", "chunk": 2}),
    "teacher": (
        {"architecture": "camvr"},
        {"positive": "answer", "distill_weight": 0.5, "validate_steps": 2},
    ),
    # With steps as small as this nothing changes, so no validation is better than the first.
    "patience": ({"architecture": "dpr"}, {"validate_steps": 1, "patience": 1, "learning_rate": 1e-12}),
    # As many views as sentences: processes differ in their numbers of sequences and views.
    "sentence": ({"architecture": "sentence"}, {"positive": "each"}),
    # Its projections for global attention have no gradient.
    "longformer": ({"architecture": "dpr"}, {}),
}
"""Settings of the model and of its training."""

RELATIVE = 1e-5

ROUNDING = 1e-4
"""Of the largest gradient: processors sum the gradients of a batch and of its halves in other orders, so that an
embedding that every token shares differs by more than others. A wrong scale would differ by the whole."""


class Trainings(NamedTuple):
    """What each number of processes saw of each case, and the folder with `models-1` and `models-2`."""

    seen: dict[int, dict[str, list[list[dict[str, Any]]]]]
    folder: Path
    events_of: dict[int, RecordedEvents]


def settings_of(case: str, processes: int) -> Train:
    return Train(**{**SHORT, **CASES[case][1], "processes": processes})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalArtifact]:
    folder = tmp_path_factory.mktemp("data")
    passages = [training_material.passage(i, sentences=1 + i % 7) for i in range(24)]
    questions = [training_material.question(i, passages[i]) for i in range(12)]
    # From no hard negative to four, and one that is another question's positive.
    pool = {
        q.qid: [passages[(i * 5 + j) % 24].id for j in range(1, 1 + i % 5)] for i, q in enumerate(questions)
    }
    written = training_material.training_inputs(folder, passages, questions, pool)
    lists = [[*question.positive_ids, *pool[question.qid]] for question in questions]
    logits = np.random.default_rng(0).normal(0, 3, (len(lists), 5))
    write_teacher(written["negatives"].path, [question.qid for question in questions], lists, logits)
    return written


@pytest.fixture(scope="module")
def all_trainings(
    data: dict[str, LocalArtifact], base: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trainings:
    """All cases on one process and on two, in one start of processes: starting them is most of the time."""
    folder = tmp_path_factory.mktemp("processes")
    longformer = random_base(folder / "longformer", "longformer", attention_window=16)
    starts = {
        name: training_material.saved_model(
            folder / "start" / name, longformer if name == "longformer" else base, **model
        )
        for name, (model, _) in CASES.items()
    }
    inputs = {name: {"start": start, **data} for name, start in starts.items()}
    inputs["dropout"] = inputs["camvr"]
    asked = [(f"p{i:03d}", (f"Which is number {i}?", f"Where is text {i}?")) for i in range(24)]
    inputs["warm-up"] = {
        "start": starts["warm-up"],
        "passages": data["passages"],
        "queries": gathered_queries(asked, folder / "queries"),
    }
    seen, events_of = {}, {}
    for processes in (1, 2):
        output = {"seen": folder / f"seen-{processes}", "models": folder / f"models-{processes}"}
        for place in output.values():
            place.mkdir()
        (output["models"] / "kept").mkdir()
        dropout = {**SHORT, "dropout": 0.3, "max_steps": 4, "checkpoint_steps": 2, "processes": processes}
        settings = Config.partial({"train": Train(processes=processes)})
        trainings = {name: settings_of(name, processes) for name in CASES} | {"dropout": Train(**dropout)}
        events_of[processes] = RecordedEvents()
        body = watched.watch if processes == 1 else watched.watch_and_resume
        on_processes(
            partial(body, trainings, inputs), StepContext(settings, {}, output, events_of[processes])
        )
        seen[processes] = {
            name: [torch.load(output["seen"] / f"{name}-{rank}.pt") for rank in range(processes)]
            for name in CASES
        }
    return Trainings(seen, folder, events_of)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_loss_the_gradients_and_the_norm_of_one(
    all_trainings: Trainings, case: str
) -> None:
    (alone,) = all_trainings.seen[1][case]
    for together in all_trainings.seen[2][case]:
        assert len(alone) == len(together) == (2 if case == "patience" else 3)
        for one, two in zip(alone, together, strict=True):
            torch.testing.assert_close(two["loss"], one["loss"], rtol=RELATIVE, atol=0)
            torch.testing.assert_close(two["norm"], one["norm"], rtol=RELATIVE, atol=0)
            clipped = torch.cat([gradient.flatten() for gradient in one["clipped"].values()]).norm()
            torch.testing.assert_close(clipped, one["norm"].clamp(max=0.5), rtol=RELATIVE, atol=0)
            for kind in ("gradients", "clipped"):
                assert one[kind].keys() == two[kind].keys() and one[kind]
                scale = max(gradient.abs().max().item() for gradient in one[kind].values())
                for name, gradient in one[kind].items():
                    torch.testing.assert_close(
                        two[kind][name], gradient, rtol=RELATIVE, atol=ROUNDING * scale, msg=f"{kind} {name}"
                    )


@pytest.mark.parametrize("case", CASES)
def test_a_whole_training_gives_the_same_model(all_trainings: Trainings, case: str) -> None:
    one, two, start = (
        BiEncoder.load(folder / case).state_dict()
        for folder in (all_trainings.folder / name for name in ("models-1", "models-2", "start"))
    )
    moved = max((one[name] - start[name]).abs().max().item() for name in one)
    assert (moved > 1e-4) == (case != "patience")
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=RELATIVE, atol=1e-3 * moved, msg=name)


def test_the_first_process_tells_for_all(all_trainings: Trainings) -> None:
    one, two = all_trainings.events_of[1], all_trainings.events_of[2]
    best = pytest.approx(one.facts["best_validation"], abs=1e-5)
    assert two.facts == {**one.facts, "processes": 2, "best_validation": best}
    assert one.facts["stopped_early_at"] == 2
    assert one.steps == two.steps[: len(one.steps)] and one.warnings == two.warnings[: len(one.warnings)]
    told = {name for name in vars(Events) if name[0] != "_"} - {"figures"}  # these are facts and metrics
    assert told <= vars(RemoteEvents).keys(), "each is sent"
    count = len(one.metrics)
    assert [(n, s) for n, _, s in one.metrics] == [(n, s) for n, _, s in two.metrics[:count]]
    for (name, expected, _), (_, got, _) in zip(one.metrics, two.metrics, strict=False):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-5), name


def test_a_resumed_training_draws_the_same_dropout_and_each_process_its_own(all_trainings: Trainings) -> None:
    folder = all_trainings.folder / "models-2"
    assert [path.name for path in (folder / "kept").iterdir()] == ["2"]
    whole, resumed = (BiEncoder.load(folder / name).state_dict() for name in ("whole", "resumed"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    states = [torch.load(all_trainings.folder / "seen-2" / f"state-{rank}.pt") for rank in (0, 1)]
    assert not torch.equal(*states)


def test_one_process_goes_on_from_a_checkpoint_of_two(
    all_trainings: Trainings, data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    settings = {**SHORT, "dropout": 0.3, "max_steps": 4, "checkpoint_steps": 2, "processes": 1}
    events = RecordedEvents()
    context = StepContext(
        Config(),
        {},
        {"models": tmp_path},
        events,
        KeptCheckpoints(all_trainings.folder / "models-2" / "kept"),
    )
    start = LocalArtifact(all_trainings.folder / "start" / "camvr", "")
    watched._train(Train(**settings), {"start": start, **data}, context, "model")
    assert sorted({step for _, _, step in events.metrics if step}) == [3, 4]
    assert BiEncoder.load(tmp_path / "model")


def test_the_processes_of_the_step_read_what_their_starter_has_prepared(
    all_trainings: Trainings, data: dict[str, LocalArtifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a teacher and a validation, so that all that a stream may hold is sent to them."""
    monkeypatch.setattr("multiview.training.train.fit", watched.fit_steadily)
    inputs = {"start": LocalArtifact(all_trainings.folder / "start" / "teacher", ""), **data}
    settings = Config.partial(
        {"train": settings_of("teacher", 2), "questions": Questions(), "corpus": Corpus()}
    )
    events = RecordedEvents()
    train(StepContext(settings, inputs, {"model": tmp_path / "model"}, events))
    expected, got = (
        BiEncoder.load(folder).state_dict()
        for folder in (all_trainings.folder / "models-2" / "teacher", tmp_path / "model")
    )
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    assert events.facts["questions"] == 10 and events.facts["processes"] == 2


def test_nodes_that_found_different_checkpoints_do_not_mix_them(all_trainings: Trainings) -> None:
    for rank in (0, 1):
        line = (all_trainings.folder / "seen-2" / f"refused-{rank}").read_text()
        assert "different checkpoints (checkpoint-0, checkpoint-1)" in line


def examples() -> list[Example]:
    passages = [training_material.passage(i) for i in range(9)]
    questions = [training_material.question(i, passages[i]) for i in range(5)]
    return [
        Example(q, p.id, tuple(passages[(i + j) % 9].id for j in range(1, i)))
        for i, (q, p) in enumerate(zip(questions, passages, strict=False))
    ]


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_shares_are_the_whole_batch_in_another_order(processes: int) -> None:
    whole = examples()
    parts = [whole[part] for part in shares(len(whole), processes)]
    assert [e for part in parts for e in part] == whole
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    ids = [name for part in parts for name in passage_ids(part)]
    assert [ids[position] for position in passage_order(parts)] == passage_ids(whole)


def test_a_share_masks_the_negatives_of_the_whole_batch(base: Path, tmp_path: Path) -> None:
    model = BiEncoder.load(training_material.saved_model(tmp_path / "m", base).path)
    texts = {p.id: p for p in map(training_material.passage, range(9))}
    equal = {"p000": "p000", "p002": "p000", "p004": "p000"}
    collator = Collator(model.layout, 0, texts, Train(negative_group=2), equal)
    whole, share = collator(examples()), collator.share(examples(), 1, 2)
    assert torch.equal(share["excluded"], whole["excluded"]) and whole["excluded"].any()
    by_id = excluded_passages(examples(), passage_ids(examples()), 2, {})
    assert (whole["excluded"] & ~by_id).any(), "passages with the text of a positive"
    assert torch.equal(share["positive"], whole["positive"])
    assert len(share["questions"]["order"]) == 3


def test_more_processes_than_a_batch_has_questions_are_refused() -> None:
    check_processes(3, 3)
    with pytest.raises(InputError, match=r"train\.processes: 4 .* 3 questions"):
        check_processes(4, 3)
