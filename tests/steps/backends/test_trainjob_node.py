"""The pods of a TrainJob: what each checks before its part of a training begins."""

import pytest
import torch

from multiview.steps.backends import trainjob_node


@pytest.mark.parametrize("first", [True, False])
def test_every_node_checks_its_gpus_before_it_reads_anything(tmp_path, monkeypatch, first):
    log = tmp_path / "termination-log"
    monkeypatch.setattr(trainjob_node, "TERMINATION_LOG", log)
    monkeypatch.setenv("PET_NODE_RANK", "0" if first else "1")
    monkeypatch.setenv("MULTIVIEW_GPUS", str(torch.cuda.device_count() + 1))
    assert trainjob_node.main(str(tmp_path / "store"), "run", "train") == 2
    assert log.read_text().startswith("this pod asked for ")


def test_a_step_that_has_not_begun_is_bad_input(tmp_path, monkeypatch):
    log = tmp_path / "termination-log"
    monkeypatch.setattr(trainjob_node, "TERMINATION_LOG", log)
    assert trainjob_node.main(str(tmp_path / "store"), "run", "train") == 2
    assert "has no state of step train of run run" in log.read_text()
