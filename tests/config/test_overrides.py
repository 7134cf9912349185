"""Settings as a person types them: dotted names, YAML values, presets."""

import pytest

from multiview.config.overrides import Overrides, gather, merge, parse_setting, parse_settings, validate
from multiview.errors import InputError


def test_a_section_without_settings_changes_nothing():
    assert merge({"train": {"epochs": 3}}, {"train": {}}) == {"train": {"epochs": 3}}


def test_settings_are_yaml_under_dotted_names():
    assert parse_setting("train.epochs=2") == {"train": {"epochs": 2}}
    assert parse_setting("train.warmup_steps=null") == {"train": {"warmup_steps": None}}
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    assert validate(parse_setting("corpus.source=[a, b]")).corpus.source == ("a", "b")
    assert validate(parse_setting("corpus.source=a")).corpus.source == ("a",)


@pytest.mark.parametrize("setting", ["train.model=", "train.model= ", "search.rerank=\n"])
def test_an_empty_value_as_of_an_unset_variable_is_no_null(setting):
    with pytest.raises(
        InputError,
        match=r"there is no value; write (train.model|search.rerank)=null, or \"\1=''\" for an empty text$",
    ):
        parse_setting(setting)
    assert parse_setting("model.question_prompt=''") == {"model": {"question_prompt": ""}}


def test_a_preset_extends_another(tmp_path):
    below, above = tmp_path / "below.yaml", tmp_path / "above.yaml"
    below.write_text("train: {epochs: 3, batch_size: 8}\nmodel: {views: 4}\n")
    above.write_text(f"extends: {below}\ntrain: {{epochs: 5}}\n")
    assert gather(str(above), []) == {"train": {"epochs": 5, "batch_size": 8}, "model": {"views": 4}}
    assert gather("results-quick", [])["model"]["scale"] == gather("snippet-means", [])["model"]["scale"]


def test_presets_in_a_circle_are_one_line(tmp_path):
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    other.write_text(f"extends: {one}\n")
    for extended in (other, f"[demo, {other}]"):
        one.write_text(f"extends: {extended}\n")
        with pytest.raises(InputError, match="in a circle"):
            gather(str(one), [])


@pytest.mark.parametrize("extended", ["[demo, 3]", "{demo: 1}", "3"])
def test_what_a_preset_extends_is_named(tmp_path, extended):
    (preset := tmp_path / "preset.yaml").write_text(f"extends: {extended}\n")
    with pytest.raises(InputError, match="expected the name of a preset or a YAML file, or a list of them"):
        gather(str(preset), [])


def test_a_preset_extends_several_of_which_later_ones_win(tmp_path):
    one, two, above = (tmp_path / name for name in ("one.yaml", "two.yaml", "above.yaml"))
    one.write_text("train: {epochs: 3, batch_size: 8}\n")
    two.write_text("train: {epochs: 4, negatives: 2}\n")
    above.write_text(f"extends: [{one}, {two}]\ntrain: {{negatives: 5}}\n")
    assert gather(str(above), []) == {"train": {"epochs": 4, "batch_size": 8, "negatives": 5}}
    # Two that extend the same one make no circle.
    one.write_text("extends: demo\n")
    two.write_text("extends: demo\n")
    assert gather(str(above), [])["train"] == gather("demo", [])["train"] | {"negatives": 5}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", []),
        ("train.epochs=3", ["train.epochs=3"]),
        (" train.epochs=3 ;\n\n mining.depth=50;", ["train.epochs=3 ;", "mining.depth=50;"]),
        (
            "corpus.columns={id: pid, text: 'a;b'}; bm25.b=0.5",
            ["corpus.columns={id: pid, text: 'a;b'}", "bm25.b=0.5"],
        ),
    ],
)
def test_settings_are_separated_by_lines_or_semicolons(text, settings):
    expected: Overrides = gather(None, [setting.strip(" ;") for setting in settings])
    assert parse_settings(text) == expected
