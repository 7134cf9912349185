"""The look for known vulnerabilities: what is locked, what pip-audit answers, and nobody who answers."""

import os
import subprocess
import sys

import pytest

from images import audit
from tests.fixtures.project import ROOT


def test_pip_audit_takes_every_locked_package(monkeypatch):
    """Also torch's build for GPUs, whose version is pinned with ===."""
    run, done = subprocess.run, list[subprocess.CompletedProcess[str]]()
    monkeypatch.setattr(
        subprocess, "run", lambda command, **kw: done.append(run([*command, "--dry-run"], **kw)) or done[0]
    )
    pins = audit.locked(audit.IMAGES / "gpu" / "requirements.lock")
    audit.ask("pypi", pins)
    assert f"would have audited {len(pins)} packages" in done[0].stderr, done[0].stderr
    assert not [pin for pin in pins if "+" in pin or pin.count("==") != 1]


def test_each_lock_is_asked_for_and_each_package_reported_once(monkeypatch, capsys):
    """Locks may have two versions of a package."""
    asked = []

    def ask(service, pins):
        asked.append([*pins])
        parts = [pin.split("==") for pin in pins]
        return [{"name": name, "version": version, "vulns": []} for name, version in parts]

    monkeypatch.setattr(audit, "ask", ask)
    assert audit.main() == 0
    assert {lock.name for lock in audit.LOCKS} >= {"requirements.lock", "build.lock", "steps.lock"}
    pins = {pin for lock in audit.LOCKS for pin in audit.locked(lock)}
    assert "torch==2.13.0" in pins and {pin for each in asked for pin in each} == pins
    assert f"knows no vulnerability of {len(pins)} packages" in capsys.readouterr().out


def test_a_vulnerability_is_named_with_its_mending(monkeypatch):
    """In pip-audit's own format."""
    known = {
        "name": "a",
        "version": "1.0",
        "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": ["CVE-1"]}],
    }
    clean, unknown = {"name": "b", "version": "2", "vulns": []}, {"name": "c", "skip_reason": "not on PyPI"}
    assert audit.report([known, clean], "pypi") == (["a 1.0: PYSEC-1, mended in 1.1"], True)
    assert audit.report([clean, unknown], "pypi") == (
        [
            "images/*/requirements.lock: pypi knows no vulnerability of 1 packages",
            "not known there, and not looked at: c",
        ],
        False,
    )
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-1": "not reachable"})
    assert not audit.report([known], "pypi")[1]


@pytest.mark.parametrize(
    "answer", ["", "[]", '{"dependencies": [{"name": "a", "skip_reason": "not on PyPI"}]}']
)
def test_a_service_that_knows_nothing_is_no_answer(answer, monkeypatch):
    """A mirror without PyPI's JSON is asked in vain, and pip-audit ends well."""
    done = subprocess.CompletedProcess([], 0, answer, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert audit.ask("pypi", ["a==1"]) is None


def test_nobody_who_answers_is_said_and_never_taken_for_clean():
    nowhere = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    environment = {**os.environ, **nowhere, "NO_PROXY": "", "no_proxy": ""}
    command = [sys.executable, "images/audit.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("neither pypi nor osv answers, so vulnerabilities were not looked for\n")
