"""The pods of a TrainJob: what each checks before its part of a training begins."""

import pytest
import torch

from multiview.artifacts.record import Reference
from multiview.steps.backends import trainjob_node
from multiview.steps.backends.trainjob import Task


@pytest.mark.parametrize("first", [True, False])
def test_every_node_checks_its_gpus_before_it_reads_anything(tmp_path, monkeypatch, first):
    log = tmp_path / "termination-log"
    monkeypatch.setattr(trainjob_node, "TERMINATION_LOG", log)
    monkeypatch.setenv("PET_NODE_RANK", "0" if first else "1")
    monkeypatch.setenv("MULTIVIEW_GPUS", str(torch.cuda.device_count() + 1))
    store = str(tmp_path / "store")
    missing = Reference(address=f"{store}/passages/none", digest="0" * 64)
    task = Task(
        store=store, run="r", path="train", step="train", config="{}", inputs={"passages": [missing]}, key="k"
    )
    assert trainjob_node.main(task.model_dump_json()) == 2
    assert log.read_text().startswith("this pod asked for ")
