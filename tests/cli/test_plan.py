"""`multiview plan`: the table before a run, its scaling by a run that was, and mistakes."""

from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore, open_store
from multiview.cli import plan
from multiview.cli.plan import factors_of, plan_lines
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.plans.estimate import ask
from multiview.plans.request import Request, describe
from multiview.plans.scenario import SHAPES, Scenario
from multiview.steps.runs import write_run
from tests.fixtures.inprocess import multiview_command, run_plan
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert

SCENARIO = Scenario(21e6, 100, 50_000, 3_000, SHAPES["bert-base"], gpus=8)


def lines(overrides: dict[str, object] | None = None, scenario: Scenario = SCENARIO) -> list[str]:
    return [*plan_lines("training", scenario, overrides or {})]


def test_shards_are_chosen_unless_they_are_given() -> None:
    assert lines()[-1] == "8 shards: corpus.shards=8"
    assert lines({"corpus": {"shards": 20}})[-1] == "20 shards: corpus.shards=20"


def test_what_does_not_fit_is_marked() -> None:
    marked = [line.split(" | ")[0] for line in lines({"index": {"kind": "hnsw"}}) if "too much" in line]
    assert "| camvr/round-1/index" in marked and "| split" not in marked


def test_settings_decide_the_steps(monkeypatch, capsys) -> None:
    words = ["plan", "--passages", "1e6", "--model", "minilm-l6", "--set", "train.rounds=1"]
    printed = multiview_command(monkeypatch, capsys, *words)
    assert "8,000,000 views; an index" in printed and "No GPU" in printed
    assert "round-1/train" in printed and "round-2" not in printed and "GPU memory" in printed
    for made, more in (2_000_000, ()), (500, ("questions.limit=500",)):
        given = [word for each in ("questions.origin=crop", *more) for word in ("--set", each)]
        assert f"{made:,} training questions" in multiview_command(monkeypatch, capsys, *words, *given)
    limits = ["--set", "questions.limit=1000", "--set", "questions.dev_limit=100"]
    assert "1,000 training questions and 100 dev questions" in multiview_command(
        monkeypatch, capsys, *words, *limits
    )


@pytest.mark.parametrize(
    ("judge", "said"),
    [("", "4,200,000 requests to the language model, about 756,000,000 tokens"),
     ("judge: $snippet $question", "8,400,000 requests to the language model, about 1,512,000,000 tokens")],
)  # fmt: skip
def test_requests_and_tokens_are_counted_where_a_language_model_is_asked(
    judge: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "prompt.yaml").write_text(f"question: $snippet\n{judge}\n")
    llm = {"model": "m", "prompt": str(tmp_path / "prompt.yaml")}
    printed = lines({"questions": {"origin": "llm"}, "make_questions": {"share": 0.1, "llm": llm}})
    assert printed[-1].startswith(said) and any("| ask-questions" in p for p in printed)


def test_a_judge_takes_the_time_of_another_request(tmp_path: Path) -> None:
    seconds = []
    for judge in ("", "judge: $snippet $question"):
        (tmp_path / "prompt.yaml").write_text(f"question: $snippet\n{judge}\n")
        llm = {"model": "m", "prompt": str(tmp_path / "prompt.yaml")}
        config = validate({"make_questions": {"share": 0.1, "llm": llm}})
        seconds.append(ask(replace(SCENARIO, config=config)).seconds)
    assert seconds[1] == 2 * seconds[0] > 0


def test_seconds_are_those_of_a_run_scaled_by_counts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(plan, "START_SECONDS", 0.0)  # every step is long enough
    passages, questions = write_corpus(tmp_path)
    overrides = {
        "corpus": {"source": [str(passages)], "shards": 2},
        "questions": {"source": [str(questions)], "dev_share": 0.4},
        "model": {"base": str(tiny_bert(tmp_path / "base")), "views": 4, "passage_length": 64},
        "train": {"rounds": 0},
    }
    request, store = Request.make("training", overrides), LocalStore(tmp_path / "store")
    run = describe(request, store)
    write_run(store, run)
    run_plan(request.plan, store, run.id)
    scenario = replace(SCENARIO, gpus=0)
    factors = factors_of(store, run.id, scenario)
    assert {"split", "encode", "evaluate"} <= set(factors)
    assert factors == factors_of(store, run.id, replace(scenario, passages=1e9))
    printed = [*plan_lines("training", scenario, overrides, (store, run.id))]
    assert f"run {run.id}" in printed[-1] and "encode × " in printed[-1]
    with pytest.raises(InputError, match="it ran on cpu: plan for the same with --gpus"):
        factors_of(store, run.id, SCENARIO)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no GPU 'h1000'.*h100"):
        lines(scenario=replace(SCENARIO, gpu="h1000"))
    with pytest.raises(InputError, match="epoch"):
        lines({"train": {"epoch": 3}})
    with pytest.raises(InputError, match="no run gone"):
        factors_of(open_store(str(tmp_path)), "gone", SCENARIO)
