"""What each step writes is held in `outputs.json`: digests where bytes are exact, numbers where they
are computed in floating point. Output that changes without a new step version fails.

After raising a version, write the fixture anew: `make golden`.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from multiview import load, names
from multiview.artifacts.record import Record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, merge
from multiview.data.questions import read_questions
from multiview.encoding.embeddings import Embeddings
from multiview.negatives.negatives_file import read_table
from multiview.plans.comparison import comparison
from multiview.plans.refresh import refresh
from multiview.steps.table import STEPS
from tests.fixtures.inprocess import Records, run_plan
from tests.fixtures.project import Project
from tests.fixtures.tiny import tiny_t5

FIXTURE = Path(__file__).parent / "outputs.json"
EXACT = ("split", "bm25-negatives", "bm25/evaluate")
OF_A_STORE = ("refresh/champion", "refresh/gate", "refresh/promote", "refresh/report")
"""Steps that say which artifacts answer, by their addresses."""
SYSTEMS = {
    "mvr": {"model": {"architecture": "mvr"}, "train": {"rounds": 0}},
    "camvr": {},
    "dual-cross": {
        "model": {"architecture": "dual-cross", "tied": True},
        "train": {"rounds": 1, "max_steps": 2, "warm_up": {"max_steps": 2}},
    },
}
LEARNING_RATE = 1e-5
"""So small that what other instruction sets round differently stays far below a training step."""
TOLERANCE = {"weights": LEARNING_RATE / 2, "vectors": 4e-3, "metrics": 0.15}


def outputs(folder: Path) -> tuple[LocalStore, Records]:
    """All outputs of a comparison of three systems, one of them in two rounds, one with generated queries; and of a refresh, whose
    first champion is that in two rounds."""
    project = Project.make(folder)
    overrides = gather(str(project.folder / "tiny.yaml"), [])
    overrides["comparison"] = {"systems": SYSTEMS, "fusion": ["camvr"]}
    overrides["train"]["learning_rate"] = LEARNING_RATE
    overrides["generation"] = {
        "model": str(tiny_t5(folder / "t5")),
        "fine_tune": True,
        "queries": 3,
        "max_length": 12,
        "train": {"max_steps": 2, "batch_size": 4},
    }
    store = LocalStore(folder / "store")
    records = run_plan(comparison(overrides), store)
    # As if it were the first refresh again, in a second run too.
    store.remove(names.CHAMPIONS)
    model = f"{store.url}/{records['camvr/round-2/train'][names.MODEL].folder}"
    refreshed = run_plan(refresh(merge(overrides, {"refresh": {"model": model}})), store)
    return store, records | {f"refresh/{path}": kinds for path, kinds in refreshed.items()}


def describe(store: LocalStore, records: Records) -> dict:
    described = {}
    for path, kinds in records.items():
        record = next(iter(kinds.values()))
        described[path] = {"version": record.step_version} | {
            kind: _describe(path, store.root / record.data, record) for kind, record in kinds.items()
        }
        if path in EXACT:
            described[path]["key"] = record.key
    return described


def _describe(path: str, folder: Path, record: Record) -> dict:
    if path in EXACT:
        return {"digest": record.digest}
    about: dict = {"files": [file.path for file in record.files]}
    if record.kind == "model":
        weights = load_file(folder / "passage" / "model.safetensors")
        name = next(n for n in sorted(weights) if n.endswith("layer.1.output.dense.weight"))
        about["settings"] = json.loads((folder / "multiview.json").read_text())
        about["weights"] = weights[name].ravel()[:8].tolist()
    elif record.kind == "embeddings":
        embeddings = Embeddings(folder)
        about["views"] = embeddings.table["views"].to_pylist()
        about["vectors"] = embeddings.views[:2, :8].astype(float).ravel().tolist()
    elif record.kind == "index":
        about["views"] = pq.read_table(folder / "passages.parquet")["views"].to_pylist()
    elif record.kind == "negatives":
        rows = read_table(folder).to_pylist()
        about["bm25"] = [row["negative_ids"] for row in rows if row["source"] == "bm25"][:5]
        about["mined"] = sum(row["source"] == "mined" for row in rows)
    elif record.kind in ("evaluation", "comparison"):
        metrics = json.loads((folder / "metrics.json").read_text())
        if record.kind == "comparison":
            metrics = {f"{row}/{name}": v for row, values in metrics.items() for name, v in values.items()}
        about["names"], about["metrics"] = list(metrics), list(metrics.values())
    return about


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[LocalStore, Records]:
    return outputs(tmp_path_factory.mktemp("made"))


def test_outputs_change_only_with_the_version_of_their_step(made):
    held, now = json.loads(FIXTURE.read_text()), describe(*made)
    assert set(now) == set(held)
    for path, kinds in now.items():
        for kind, about in kinds.items():
            if not isinstance(about, dict):
                assert about == held[path][kind], f"{path}: {kind} changed"
                continue
            expected = held[path][kind]
            assert set(about) == set(expected), path
            for name, value in about.items():
                if name in TOLERANCE:
                    np.testing.assert_allclose(value, expected[name], atol=TOLERANCE[name], err_msg=path)
                else:
                    assert value == expected[name], f"{path}: {kind} {name} changed: raise the step's version"


def _artifacts(store: LocalStore) -> list[str]:
    # The promotion is done again, and recorded and reported anew, where its champion was removed.
    others = (names.RUNS, names.CHAMPIONS, names.PROMOTION, names.REPORT)
    paths = (path for path in store.files("") if path.split("/")[0] not in others)
    return [path for path in paths if not path.endswith(".verified.json")]


def test_a_second_run_in_the_same_store_finds_every_record(made):
    store, records = made
    before = _artifacts(store)
    again = outputs(store.root.parent)[1]
    assert again.keys() == records.keys()
    for path in records.keys() - {"refresh/promote", "refresh/report"}:
        assert again[path] == records[path], path
    assert _artifacts(store) == before
    assert {record.step for kinds in records.values() for record in kinds.values()} == set(STEPS) - {
        "crop-questions",  # tests/generation/test_make_questions.py
        "generate-questions",
        "ask-questions",
        "make-questions",
        "make-questions-by-index",
        "changes-with-queries",  # tests/refresh/test_generated_queries.py
        "given-negatives",  # tests/negatives/test_negatives_file_given.py
        "teach",  # tests/negatives/test_cross_encoder_teacher.py
        "champion-now",  # tests/export/test_step.py
        "export",
        "follow-champion",  # tests/export/test_step_following.py
        "refresh-index-with-search",  # tests/refresh/test_index_equal.py
    }


def test_the_index_of_a_refresh_is_that_of_the_training(made):
    _, records = made
    assert (
        records["refresh/challenger/index"]["index"].digest == records["camvr/round-2/index"]["index"].digest
    )


def test_keys_and_digests_depend_neither_on_the_store_nor_on_where_the_sources_lie(made, tmp_path):
    (_, one), (_, two) = made, outputs(tmp_path / "elsewhere")
    for path in [path for path in one if path not in OF_A_STORE]:
        for kind, record in one[path].items():
            assert record.key == two[path][kind].key, f"{path} {kind}"
            if kind != "report":  # it says how long things took
                assert record.digest == two[path][kind].digest, f"{path} {kind}"


def test_an_evaluation_tells_of_the_best_passages_what_search_explains(made):
    store, records = made
    retriever = load(f"{store.url}/{records['camvr/round-2/index']['index'].folder}")
    (evaluation,) = records["camvr/round-2/evaluate"].values()
    rows = pq.read_table(store.root / evaluation.data / "questions.parquet").to_pylist()
    questions = read_questions(store.root / records["split"]["dev_questions"].data)
    found = retriever.search([question.question for question in questions], 5, explain=True)
    assert [row["qid"] for row in rows] == [question.qid for question in questions]
    for row, (hit, *_) in zip(rows, found, strict=True):
        assert (row["top_passage_id"], row["top_start"], row["top_stop"]) == (
            hit.id,
            *(hit.span or (None, None)),
        )
    assert any(hits[0].span for hits in found)

    best = pq.read_table(store.root / evaluation.data / "best.parquet").to_pylist()
    hits = [
        (question, rank, hit)
        for question, of in zip(questions, found, strict=True)
        for rank, hit in enumerate(of)
    ]
    assert len(best) == len(hits) == 5 * len(questions)
    for row, (question, rank, hit) in zip(best, hits, strict=True):
        assert (row["qid"], row["rank"], row["passage_id"]) == (question.qid, rank + 1, hit.id)
        assert row["gold"] == (hit.id in question.positive_ids)
        spans = [(start, stop) for start, stop in zip(row["view_starts"], row["view_stops"], strict=True)]
        assert spans == [view.span or (None, None) for view in hit.views]
        np.testing.assert_allclose(row["view_scores"], [view.score for view in hit.views], rtol=1e-4)
        assert row["view_scores"][row["view"]] == pytest.approx(row["score"], rel=1e-5)
    firsts = {row["qid"]: row["rank_of_first_answer"] for row in rows}
    for qid, first in firsts.items():
        holding = [row["rank"] for row in best if row["qid"] == qid and row["answer"]]
        assert holding[:1] == ([first] if first and first <= 5 else [])

    (plain,) = records["bm25/evaluate"].values()
    best = pq.read_table(store.root / plain.data / "best.parquet")
    assert best["view_scores"].null_count == best["view"].null_count == len(best) > 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        FIXTURE.write_text(json.dumps(describe(*outputs(Path(temporary))), indent=1) + "\n")
