"""YAML documents: what is wrong with one is a line that names the document and the place in it."""

import re
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator, Field

from multiview.config import Config, Section
from multiview.config.documents import checked, document_names, find_document, read_compiled, read_document
from multiview.errors import InputError
from tests.fixtures.compiled import compiled_text

ROOT = Path(__file__).parents[2]


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("should be even")
    return number


class Window(Section):
    breadth: Annotated[int, AfterValidator(_even)] = 2
    height: Annotated[int, Field(ge=1)] = 1


class House(Section):
    name: str
    windows: tuple[Window, ...] = ()
    door: Window | None = None


def refusal(tmp_path: Path, text: str) -> str:
    file = tmp_path / "house.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_document(file, "house").checked(House)
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(tmp_path), "TMP")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "house TMP/house.yaml: name is missing"),
        (
            "name: 1",
            "house TMP/house.yaml: name: expected a text, in quotes where YAML reads it as something else, not 1",
        ),
        ("{name: a, nmae: b}", "house TMP/house.yaml: there is no setting nmae; did you mean name?"),
        (
            "{name: a, windows: [{}, {braedth: 2}]}",
            "house TMP/house.yaml: there is no setting windows.1.braedth; did you mean breadth?",
        ),
        ("{name: a, door: {hieght: 2}}", "there is no setting door.hieght; did you mean height?"),
        (
            "{name: a, windows: [{breadth: 3}]}",
            "house TMP/house.yaml: windows.0.breadth: should be even",
        ),
        ("{name: a, door: {height: 0}}", "door.height: input should be greater than or equal to 1, not 0"),
    ],
)
def test_what_is_wrong_is_a_line_that_names_the_file_and_the_place(tmp_path, text, line):
    assert line in refusal(tmp_path, text)


def test_a_merge_may_be_overridden_wherever_its_anchor_lies(tmp_path):
    file = tmp_path / "preset.yaml"
    file.write_text("k: {n: {base: &b {x: 1}, a: &a {<<: *b, x: 2}}}\nc: {<<: *a, y: 3}\n")
    assert read_document(file, "preset").content["c"] == {"x": 2, "y": 3}
    file.write_text("a: {x: 1, x: 2}\n")
    with pytest.raises(InputError, match="'x' is given twice"):
        read_document(file, "preset")


def test_defaults_lie_under_what_the_document_says(tmp_path):
    file = tmp_path / "house.yaml"
    file.write_text("{name: theirs}")
    assert read_document(file, "house").checked(House, name="ours", windows=[{}]).name == "theirs"


@pytest.mark.parametrize("kind", ["preset", "study"])
def test_documents_of_the_package_are_found_by_their_names(kind):
    names = document_names(kind)
    assert len(names) > 5 and all(find_document(name, kind).content for name in names)
    with pytest.raises(InputError, match=f"^there is no {kind} '{names[0]}x'; did you mean {names[0]}"):
        find_document(f"{names[0]}x", kind)


def test_settings_without_a_document_begin_with_their_name():
    for given, line in (
        ({"train": {"epoch": 1}}, r"there is no setting train\.epoch; did you mean epochs\?"),
        ({"kubeflow": {"steps": {"split": {"nodes": 3}}}}, r"kubeflow\.steps: nodes=3 is for \S+ and \S+ alone, not for split"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"^{line}$"):
            checked(Config, given)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("https://ann:secret@a.org/p", True),
        ("https://ann:my secret@a.org/p", True),
        ("https://ann:my se@cret@a.org/p", True),
        ("https://ann:1234@a.org/p", True),
        ("http://localhost:8080, or ask help@example.org", False),
        ("Our service is http://localhost:8080 (questions to help@example.org).", False),
        ("see https://example.org: mail a@b", False),
    ],
)
def test_a_password_is_told_from_a_sentence(text, refused):
    settings = {"model": {"question_prompt": text}}
    if not refused:
        assert checked(Config, settings).model.question_prompt == text
        return
    with pytest.raises(InputError, match=r"://…@a.org/p holds a password"):
        checked(Config, settings)


def test_yaml_is_loaded_in_one_place():
    folders = [ROOT / name for name in ("src", "pipelines", "components", "images", "benchmarks")]
    sources = [file for folder in folders for file in folder.rglob("*.py")]
    loads = re.compile(r"\byaml\.\w*(load|Loader)|^\s*from yaml\b", re.M)
    found = {file.relative_to(ROOT).as_posix() for file in sources if loads.search(file.read_text())}
    assert found == {"src/multiview/config/documents.py"}


def test_a_compiled_pipeline_is_read_with_the_settings_of_its_pods():
    ir, pods = read_compiled(compiled_text("training"))
    assert ir["pipelineInfo"]["name"] == "training" and pods["exec-split"]["activeDeadlineSeconds"]
    assert read_compiled("root: {}\n") == ({"root": {}}, {})
