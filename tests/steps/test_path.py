"""Paths of steps: their parts, and the text that they are read back from."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiview.steps import path as module
from multiview.steps.path import WARM_UP, StepPath, last_rounds, unfinished_rounds

NAMES = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True),
    st.sampled_from(["round-1", "warm-up", "split", "shard", "shards-1", "shard-1x"]),
)
STAGES = st.one_of(st.just(""), st.just(WARM_UP), st.integers(0, 30).map(lambda number: f"round-{number}"))


@st.composite
def paths(draw) -> StepPath:
    step = draw(NAMES.filter(lambda name: not name.removeprefix("shard-").isdigit()))
    system = draw(st.one_of(st.just(""), NAMES, st.just("shard-00")))
    shard = draw(st.one_of(st.just(""), st.integers(0, 120).map(lambda number: f"shard-{number:02d}")))
    return StepPath(step, system, draw(STAGES) if system else "", shard)


@given(paths())
def test_a_path_is_read_back_from_its_text(path):
    assert StepPath.parse(str(path)) == path
    assert str(path).split("/")[0] == path.row
    assert str(path.whole) == str(path).removesuffix(f"/{path.shard}" if path.shard else "")


@pytest.mark.parametrize(
    ("text", "path", "number"),
    [
        ("split", StepPath("split"), None),
        ("generate-queries/shard-00", StepPath("generate-queries", shard="shard-00"), None),
        ("camvr/initial-model", StepPath("initial-model", "camvr"), None),
        ("camvr/round-0/encode/shard-03", StepPath("encode", "camvr", "round-0", "shard-03"), 0),
        ("mvr/round-2/train", StepPath("train", "mvr", "round-2"), 2),
        ("dual-cross/warm-up/train", StepPath("train", "dual-cross", "warm-up"), None),
    ],
)
def test_the_parts_of_the_paths_that_there_are(text, path, number):
    assert StepPath.parse(text) == path and str(path) == text
    assert path.round == number


@pytest.mark.parametrize("text", ["", "a//b", "/a", "a/", "a/b/c/d", "a/b/c/d/shard-00"])
def test_what_is_no_path_is_refused(text):
    with pytest.raises(ValueError, match="is no path"):
        StepPath.parse(text)


def test_the_last_round_is_the_highest_and_not_the_last_in_the_alphabet():
    texts = ["camvr/round-2/index", "camvr/round-10/index", "champion", "mvr/round-0/index", "mvr/index"]
    assert {row: str(path) for row, path in last_rounds(map(StepPath.parse, texts)).items()} == {
        "camvr": "camvr/round-10/index",
        "champion": "champion",
        "mvr": "mvr/index",
    }


def test_the_example_is_true():
    assert doctest.testmod(module).failed == 0


def test_a_row_whose_last_round_is_to_come_is_unfinished():
    planned = [
        "camvr/round-1/evaluate",
        "camvr/round-2/evaluate",
        "mvr/round-2/evaluate",
        "bm25/evaluate",
        "compare",
    ]

    def missing(*done: str) -> list[str]:
        return unfinished_rounds(last_rounds(map(StepPath.parse, done)), planned, "evaluate")

    assert missing("camvr/round-1/evaluate", "bm25/evaluate") == ["camvr/round-2/evaluate"]
    assert missing("camvr/round-1/evaluate", "camvr/round-2/evaluate", "mvr/round-2/evaluate") == []
    assert missing("mvr/round-3/evaluate", "other/evaluate") == [], "of a run that this one reruns in part"
