import re
from dataclasses import replace
from html.parser import HTMLParser

import yaml

from multiview.artifacts.staging import stage
from multiview.config import Model
from multiview.export.model_card import Description, describe, model_card, read_subject
from multiview.export.sentence_transformers import write_sentence_transformers
from tests.fixtures.exported_models import saved_model
from tests.fixtures.hostile_texts import HOSTILE

DESCRIBED = Description(
    digest="ab12",
    base="me/base at 0123",
    hub="me/base",
    corpus="corpus.jsonl",
    passages=1234,
    stages=["99 questions of train.json; epochs: 3"],
)


def card(described: Description = DESCRIBED, name: str = "mine") -> str:
    return model_card(name, Model(architecture="dpr"), 8, "[SEP]", described)


def front_matter(text: str) -> dict[str, object]:
    return yaml.safe_load(text.split("---\n")[1])


def run_code(text: str) -> dict[str, object]:
    """Runs the card's only block of code."""
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in code.splitlines() if line]) == 5
    found: dict[str, object] = {}
    exec(code, found)
    return found


def test_front_matter_is_what_the_hub_expects():
    assert front_matter(card()) == {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["sentence-transformers", "multi-vector", "multiview", "dpr"],
        "base_model": "me/base",
    }


def test_a_base_from_a_folder_is_no_base_model_of_the_hub():
    assert "base_model" not in front_matter(card(replace(DESCRIBED, hub=None)))


def test_the_training_is_told():
    text = card()
    for told in (
        "99 questions of train.json",
        "99 questions of train.json; epochs: 3",
        "corpus.jsonl: 1,234 passages",
        "me/base at 0123",
    ):
        assert told in text


def test_a_model_without_records_has_a_card_too():
    text = card(Description())
    assert "## Use" in text and "## Training" not in text


def test_texts_from_outside_stay_texts():
    """No name of a source closes its element, begins another one or leaves the HTML, which Markdown would read."""
    for hostile in HOSTILE:
        described = replace(DESCRIBED, corpus=hostile, stages=[hostile])
        plain, found = Elements(), Elements()
        plain.feed(card())
        found.feed(card(described))
        assert found.elements == plain.elements
        tables = card(described).split("## Training")[1].split("\n## ")[0].strip()
        assert "\n\n" not in tables


class Elements(HTMLParser):
    """The elements of a page, without its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append(f"{tag} {attrs}")

    def handle_endtag(self, tag):
        self.elements.append(f"/{tag}")


def test_the_code_of_a_card_runs(base, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = saved_model(tmp_path / "model", base, architecture="dpr")
    write_sentence_transformers(model, tmp_path / "mine")
    run_code((tmp_path / "mine" / "README.md").read_text())
    assert capsys.readouterr().out.startswith("tensor([[")


def test_the_code_of_a_card_with_our_module_runs(indexes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, index = read_subject(indexes.index("pooled"))
    write_sentence_transformers(stage(*model).path, tmp_path / "it's mine", describe(model, index))
    text = (tmp_path / "it's mine" / "README.md").read_text()
    run_code(text)
    assert capsys.readouterr().out.startswith("tensor([[")
    assert "trust_remote_code=True" in text
