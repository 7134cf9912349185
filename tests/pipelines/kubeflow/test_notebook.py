"""docs/examples/submit.ipynb: its cells are run in order, as in a fresh kernel, against the test server.

What the cluster would do is done here when the run is looked at: its steps, on a small corpus, into the bucket.
"""

import json
from pathlib import Path

import pytest
import yaml

from multiview.artifacts.store import open_store
from multiview.kubeflow.run import open_run
from multiview.plans.request import Request
from multiview.steps.runs import Run
from pipelines.kubeflow import follow
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT
from tests.fixtures.tiny import tiny_bert

NOTEBOOK = json.loads((ROOT / "docs" / "examples" / "submit.ipynb").read_text(encoding="utf-8"))
SMALL = {
    "corpus": {"keep": "gold"},
    "questions": {"source": "demo://train.json", "dev_source": "demo://dev.json", "limit": 20},
    "model": {"base": "package:tiny_base", "passage_length": 48, "tied": True},
    "evaluation": {"depth": 5, "analyses": []},
    "bm25": {"depth": 5},
    "comparison": {
        "fusion": [],
        "systems": {"base": {"model": {"architecture": "dpr"}, "train": {"rounds": 0}}},
    },
}


def test_the_notebook_submits_waits_reads_and_plots(kubeflow, bucket, tmp_path, monkeypatch, capsys):
    profile = {"host": kubeflow.url, "store": f"{bucket}/notebook"}
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    tiny_bert(tmp_path / "tiny_base")
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.1)

    def cluster(run) -> None:
        if run.state == "PENDING":
            run.state = "RUNNING"
            return
        given = run.runtime_config.parameters
        described = Run.model_validate_json(given["described"])
        open_run(given["store"], given["described"], run.run_id)
        run_plan(
            Request.make(described.pipeline, described.config).plan, open_store(given["store"]), described.id
        )
        run.state = "SUCCEEDED"

    kubeflow.on_run = cluster
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    kernel: dict = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), f"submit.ipynb, {cell['id']}", "exec"), kernel)
        if "parameters" in cell["metadata"].get("tags", ()):
            kernel |= {"preset": "small.yaml"}
    (run,) = kubeflow.runs.values()
    assert run.display_name in capsys.readouterr().out
    assert list(kernel["metrics"]) == ["base", "bm25"]
    bars = kernel["axes"].containers
    assert [bar.get_label() for bar in bars] == ["base", "bm25"]
    heights = [bar.get_height() for bar in bars[1]]
    assert max(heights) == pytest.approx(100 * max(kernel["metrics"]["bm25"].values())) and max(heights) > 0


def test_the_notebook_is_kept_without_outputs():
    for cell in NOTEBOOK["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert Path(ROOT / "docs" / "kubeflow.md").is_file(), "which it links to"
