"""The same seed makes the same negatives, batches and index, whatever the workers, threads, shards and kernels.

Each step runs in processes of several environments on equal inputs. What may differ is the last bits of floats, and the
record then says which instructions made them; no negative, batch, hit or figure of an evaluation does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file

from multiview import names
from multiview.artifacts.record import Record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import Overrides, gather, merge
from multiview.encoding.embeddings import Embeddings
from multiview.evaluation.files import METRICS_FILE, RUN_FILE
from multiview.negatives.negatives_file import read_table
from multiview.plans.plan import Plan
from multiview.plans.system import training
from multiview.steps.events import read_metrics
from multiview.steps.path import StepPath
from tests.fixtures.determined import AHEAD, Made, in_environment
from tests.fixtures.project import Project
from tests.fixtures.tally import COMPARED, Tally

SCORES = 1e-5
"""By how much of itself a score may differ; hits of scores so close may change places."""
FLOAT32 = 1e-6
"""By how much of a view's largest number its numbers may differ, beside one step of float16."""
UNTRAINED = 1e-7
"""By how much an untrained model's random weights may differ."""
STEPS, LEARNING_RATE = 4, 1e-3
LOSSES = 1e-3
"""By how much of itself the loss of a step may differ."""
ALONE = {"OMP_NUM_THREADS": "1"}
OLDEST = {
    "OPENBLAS_CORETYPE": "Prescott",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",
}
FLOATS = {"train", "encode", "mine", "evaluate"}
on_x86 = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT", reason="instructions are chosen on x86-64"
)


@dataclass(frozen=True)
class Variant:
    """An environment; the steps whose floats may have other last bits in it."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    may_differ: frozenset[str] = frozenset()


def _kernels(name: str, steps: set[str], **environment: str) -> Variant:
    return Variant(name, environment, may_differ=frozenset(steps))


WORKERS = {AHEAD: "2"}
QUICK = (
    Variant("2 threads, 2 workers", {"OMP_NUM_THREADS": "2", **WORKERS}, may_differ=frozenset({"train"})),
)
LONG = (
    _kernels("the oldest kernels", FLOATS | {"initial-model"}, **OLDEST),
    Variant("4 threads", {"OMP_NUM_THREADS": "4"}, may_differ=frozenset({"train"})),
    Variant("2 workers", WORKERS),
    _kernels("OpenBLAS, Prescott", {"evaluate"}, OPENBLAS_CORETYPE="Prescott"),
    _kernels("OpenBLAS, Haswell", {"evaluate"}, OPENBLAS_CORETYPE="Haswell"),
    _kernels("oneDNN, AVX2", FLOATS, ONEDNN_MAX_CPU_ISA="AVX2"),
    _kernels("torch, AVX2", FLOATS, ATEN_CPU_CAPABILITY="avx2"),
    _kernels("MKL, compatible", FLOATS, MKL_CBWR="COMPATIBLE"),
)
VARIANTS = [
    *(pytest.param(variant, id=variant.name, marks=on_x86) for variant in QUICK),
    *(pytest.param(variant, id=variant.name, marks=(on_x86, pytest.mark.torture)) for variant in LONG),
]


def plan(folder: Path, settings: Overrides) -> Plan:
    """Two rounds of a few steps."""
    given = gather(str(folder / "tiny.yaml"), [])
    train = {"max_steps": STEPS, "learning_rate": LEARNING_RATE, "checkpoint_steps": 100}
    return training(merge(merge(given, {"train": train}), settings))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What is made by one thread, with the kernels that suit the processor."""
    folder = tmp_path_factory.mktemp("determined")
    Project.make(folder)
    return in_environment(plan(folder, {}), LocalStore(folder / "store"), ALONE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_inputs_make_equal_outputs(
    reference: Made, tmp_path: Path, variant: Variant, tally: Tally
) -> None:
    folder = reference.store.root.parent
    store = LocalStore(tmp_path / "store")
    made = in_environment(plan(folder, {}), store, {**ALONE, **variant.environment}, reference)
    assert made.batches == reference.batches
    expected = reference.records()
    for path, kinds in made.records().items():
        step = StepPath.parse(path).step
        for kind, record in kinds.items():
            before = expected[path][kind]
            tally.add(COMPARED, len(record.files), of=f"outputs with {variant.name}")
            if record.digest != before.digest:
                assert step in variant.may_differ, f"{path}: {kind} differs"
                assert record.environment != before.environment, "the record says so"
                SAME[step](_folder(reference, before), _folder(made, record))
            if kind == names.MODEL and step == "train":
                np.testing.assert_allclose(_losses(made, record), _losses(reference, before), rtol=LOSSES)
            tally.survived(of=f"outputs with {variant.name}")
    digests = [
        {r.digest for kinds in each.values() for r in kinds.values()} for each in (expected, made.records())
    ]
    assert variant.environment != OLDEST or digests[0] != digests[1], "these instructions were chosen"


@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.torture
def test_shards_change_nothing_but_themselves(
    reference: Made, tmp_path: Path, shards: int, tally: Tally
) -> None:
    """Passages and embeddings are cut elsewhere; everything that is made of them is the same to the bit."""
    other = plan(reference.store.root.parent, {"corpus": {"shards": shards}})
    made = in_environment(other, LocalStore(tmp_path / "store"), ALONE)
    assert made.batches == reference.batches
    expected, found = reference.records(), made.records()
    for path in [path for path in expected if not StepPath.parse(path).shard]:
        for kind in set(expected[path]) - {names.PASSAGES}:
            assert found[path][kind].digest == expected[path][kind].digest, f"{path}: {kind}"
            tally.add(COMPARED, len(found[path][kind].files), of=f"outputs with {shards} shards")
    assert _passages(made) == _passages(reference)
    for number in (1, 2):
        ours, theirs = _embeddings(made, number), _embeddings(reference, number)
        assert ours[0] == theirs[0] and ours[1].tobytes() == theirs[1].tobytes()


def _folder(made: Made, record: Record) -> Path:
    return made.store.root / record.data


def _losses(made: Made, record: Record) -> list[float]:
    losses = [metric.value for metric in read_metrics(made.store, record.data) if metric.name == "loss"]
    assert losses
    return losses


def _passages(made: Made) -> list[dict[str, object]]:
    folder = _folder(made, made.records()["split"][names.PASSAGES])
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]).to_pylist()


def _embeddings(made: Made, number: int) -> tuple[list[tuple[object, ...]], np.ndarray]:
    """Each passage's id and number of views, and all views."""
    found = [
        Embeddings(_folder(made, kinds[names.EMBEDDINGS]))
        for path, kinds in sorted(made.records().items())
        if StepPath.parse(path).step == "encode" and StepPath.parse(path).round == number
    ]
    rows = [(row["id"], row["views"]) for each in found for row in each.table.to_pylist()]
    return rows, np.concatenate([each.views for each in found])


def _same_weights(ours: Path, theirs: Path, apart: float) -> None:
    assert (ours / "multiview.json").read_bytes() == (theirs / "multiview.json").read_bytes()
    for file in sorted(ours.rglob("*.safetensors")):
        other = load_file(theirs / file.relative_to(ours))
        for name, weights in load_file(file).items():
            np.testing.assert_allclose(other[name], weights, rtol=0, atol=apart, err_msg=name)


def _same_embeddings(ours: Path, theirs: Path) -> None:
    """Each number at most one step of float16 away, beside what float32 loses of the view's largest number."""
    before, after = Embeddings(ours), Embeddings(theirs)
    assert after.table.equals(before.table)
    sizes = np.maximum(np.abs(before.views), np.abs(after.views))
    bound = np.spacing(sizes).astype(float) + FLOAT32 * sizes.max(axis=1, keepdims=True).astype(float)
    apart = np.abs(np.subtract(after.views, before.views, dtype=float))
    assert (apart <= bound).all(), (apart / bound).max()


def _same_negatives(ours: Path, theirs: Path) -> None:
    rankings = [read_table(folder).to_pylist() for folder in (ours, theirs)]
    for one, other in zip(*rankings, strict=True):
        assert (one["qid"], one["source"]) == (other["qid"], other["source"])
        _same_ranking(*(list(zip(row["negative_ids"], row["scores"], strict=True)) for row in (one, other)))


def _same_evaluation(ours: Path, theirs: Path) -> None:
    assert (ours / METRICS_FILE).read_bytes() == (theirs / METRICS_FILE).read_bytes()
    runs: list[dict[str, list[tuple[str, float]]]] = [{}, {}]
    for folder, run in zip((ours, theirs), runs, strict=True):
        for line in (folder / RUN_FILE).read_text().splitlines():
            qid, _, passage, _, score, _ = line.split()
            run.setdefault(qid, []).append((passage, float(score)))
    assert list(runs[0]) == list(runs[1])
    for qid, ranking in runs[0].items():
        _same_ranking(ranking, runs[1][qid])


def _same_ranking(ours: Sequence[tuple[str, float]], theirs: Sequence[tuple[str, float]]) -> None:
    """The same hits at the same ranks, but for those whose scores nothing tells apart."""
    assert len(ours) == len(theirs)
    scores = dict(theirs)
    for (one, score), (other, like) in zip(ours, theirs, strict=True):
        assert like == pytest.approx(score, rel=SCORES)
        assert one == other or scores.get(one, theirs[-1][1]) == pytest.approx(score, rel=SCORES), one


SAME: dict[str, Callable[[Path, Path], None]] = {
    "initial-model": partial(_same_weights, apart=UNTRAINED),
    # AdamW moves a weight whose gradient is but rounding by a whole learning rate, in either direction.
    "train": partial(_same_weights, apart=2 * STEPS * LEARNING_RATE),
    "encode": _same_embeddings,
    "mine": _same_negatives,
    "evaluate": _same_evaluation,
}
"""By step, what must hold of two outputs whose bytes differ."""
