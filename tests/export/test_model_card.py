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


def card(described: Description = DESCRIBED) -> str:
    return model_card("mine", Model(architecture="dpr"), 8, "[SEP]", described)


def test_a_card_tells_the_hub_and_people_what_is_known():
    text = card()
    front = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["sentence-transformers", "multi-vector", "multiview", "dpr"],
        "base_model": "me/base",
    }
    assert yaml.safe_load(text.split("---\n")[1]) == front
    assert DESCRIBED.stages[0] in text and "corpus.jsonl: 1,234 passages" in text and DESCRIBED.base in text
    assert "base_model" not in card(replace(DESCRIBED, hub=None)), "of a folder"
    bare = card(Description())
    assert "## Use" in bare and "## Training" not in bare


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


def test_the_code_of_a_card_runs(base, indexes, tmp_path, monkeypatch, capsys):
    """Of a model that sentence-transformers loads by itself, and of one with our module, by a name with a quote."""
    monkeypatch.chdir(tmp_path)
    write_sentence_transformers(saved_model(tmp_path / "model", base, architecture="dpr"), tmp_path / "mine")
    model, index = read_subject(indexes.index("pooled"))
    write_sentence_transformers(stage(*model).path, tmp_path / "it's ours", describe(model, index))
    for name, own in (("mine", False), ("it's ours", True)):
        text = (tmp_path / name / "README.md").read_text()
        (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        assert len([line for line in code.splitlines() if line]) == 5
        exec(code, {})
        assert capsys.readouterr().out.startswith("tensor([[")
        assert ("trust_remote_code=True" in text) == own
