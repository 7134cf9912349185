"""Questions asked by a language model: the same whatever the endpoint does, and nothing is asked for twice."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview import names
from multiview.artifacts.store import LocalStore
from multiview.config import Config, MakeQuestions
from multiview.data.passages import Passage
from multiview.data.questions import FILE, GENERATED, read_questions
from multiview.errors import InputError
from multiview.generation import ask_questions as module
from multiview.generation.ask_questions import ask_questions, value_in
from multiview.generation.make_questions import draw_snippets
from multiview.steps.context import StepContext
from tests.fixtures import training_material
from tests.fixtures.chat_server import FAULTS, REFUSAL, USAGE, ChatServer, chat_server, question_about
from tests.fixtures.events import RecordedEvents


def passage(id_: str, *sentences: str) -> Passage:
    ends = tuple(len(" ".join(sentences[: number + 1])) for number in range(len(sentences)))
    return Passage(id_, "Title", " ".join(sentences), ends)


PASSAGES = [
    passage(f"p{number:02d}", f"The tower stood at place{number}.", f"It was old at age{number}.")
    for number in range(12)
]
SNIPPETS = [snippet for passage in PASSAGES for snippet in draw_snippets(passage, MakeQuestions())]
EXPECTED = [
    s.question(json.loads(question_about({"messages": [{"content": f"Part: {s.text}"}]}))["question"])
    for s in SNIPPETS
]
"""What the server makes of all snippets."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


class Asked:
    """What the step drafts of passages, with a store and an endpoint."""

    def __init__(
        self, folder: Path, chat: ChatServer, passages: list[Passage] = PASSAGES, **changes: Any
    ) -> None:
        made = {key: changes.pop(key) for key in ("share", "per_passage", "seed") if key in changes}
        llm = {"model": "m", "base_url": chat.url, **changes}
        number = len([*folder.glob("drafts-*")])
        self.output = folder / f"drafts-{number}"
        self.output.mkdir(parents=True)
        self.events = RecordedEvents()
        shard = training_material.write_shard(folder / f"passages-{number}", passages)
        chat.asked.clear()
        ask_questions(
            StepContext(
                Config.partial({"make_questions": MakeQuestions(llm=llm, **made)}),  # pyright: ignore[reportArgumentType]
                {"passages": shard},
                {"drafts": self.output},
                self.events,
                opened=LocalStore(folder / "store"),
            )
        )
        self.questions = read_questions(self.output)


def refused(folder: Path, chat: ChatServer, **changes: Any) -> str:
    """The line that asking ends with."""
    with pytest.raises(InputError) as ended:
        Asked(folder, chat, **changes)
    line = str(ended.value)
    assert "\n" not in line and "planted-key" not in line
    return line


def test_a_snippet_is_the_answer_to_its_question_at_its_offset(chat: ChatServer, tmp_path: Path) -> None:
    made = Asked(tmp_path, chat)
    assert made.questions == EXPECTED and len(EXPECTED) == 24
    for question in made.questions:
        (passage,) = [each for each in PASSAGES if each.id == question.positive_ids[0]]
        assert question.answer_starts and question.qid.startswith(GENERATED)
        assert passage.text[question.answer_starts[0] :].startswith(question.answers[0])
    body = chat.asked[0]
    assert body["model"] == "m" and body["temperature"] == 0 and body["seed"] == 0
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["question"]
    assert made.events.facts["unusable_answers"] == 0 and not made.events.warnings


@pytest.mark.parametrize("concurrency", [1, 24])
def test_drafts_have_the_same_bytes_whatever_fails_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.4)
    first, then = (random.Random(concurrency + n).sample([*FAULTS, *["none"] * 18], 24) for n in (0, 1))

    def fault(tries: int, text: str) -> Any:
        about = next(n for n, snippet in enumerate(SNIPPETS) if f"Part: {snippet.text}\\n" in text)
        return (first[about], then[about], "none")[min(tries, 2)]

    with chat_server() as plain:
        expected = Asked(tmp_path / "plain", plain).output / FILE
    with chat_server(fault=fault) as failing:
        made = Asked(tmp_path / "failing", failing, concurrency=concurrency)
        assert (made.output / FILE).read_bytes() == expected.read_bytes()
        assert sum(failing.tries.values()) >= 24 + len(FAULTS) and failing.most_at_once <= concurrency


def test_nothing_is_asked_twice_whatever_share_seed_or_shard(chat: ChatServer, tmp_path: Path) -> None:
    few = Asked(tmp_path, chat, share=0.5)
    first = len(chat.asked)
    assert 0 < first < 24 and first == len(few.questions)
    whole = Asked(tmp_path, chat, concurrency=2)
    assert len(chat.asked) == 24 - first and set(few.questions) < set(whole.questions)
    again = Asked(tmp_path, chat)
    assert not chat.asked and (again.output / FILE).read_bytes() == (whole.output / FILE).read_bytes()
    parts = [*Asked(tmp_path, chat, PASSAGES[5:]).questions, *Asked(tmp_path, chat, PASSAGES[:5]).questions]
    assert not chat.asked and {*parts} == {*whole.questions}
    assert set(Asked(tmp_path, chat, seed=7, per_passage=1).questions) < {*whole.questions} and not chat.asked
    Asked(tmp_path, chat, model="other")
    assert len(chat.asked) == 24, "another model answers for itself"


def test_equal_snippets_are_asked_about_once(chat: ChatServer, tmp_path: Path) -> None:
    copies = [passage(f"copy-{n}", "The same words.") for n in range(20)]
    assert len(Asked(tmp_path, chat, copies, concurrency=4).questions) == 20 and len(chat.asked) == 1


def test_a_killed_run_asks_only_for_what_is_missing(
    chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Asked(tmp_path / "whole", chat)
    monkeypatch.setattr(module, "ROUNDS", 2)
    answered = 0

    def killed(body: Any) -> str:
        nonlocal answered
        answered += 1
        return question_about(body)

    original = module.Answers.add

    def add(self: Any, *answer: Any) -> None:
        original(self, *answer)
        if answered >= 7:
            raise KeyboardInterrupt

    chat.content = killed
    monkeypatch.setattr(module.Answers, "add", add)
    with pytest.raises(KeyboardInterrupt):
        Asked(tmp_path / "killed", chat, concurrency=2)
    before = len(chat.asked)
    monkeypatch.setattr(module.Answers, "add", original)
    again = Asked(tmp_path / "killed", chat, concurrency=2)
    # Nobody heard the answers that were under way.
    assert before >= 7 and 24 - before <= len(chat.asked) <= 24 - before + 2
    assert (again.output / FILE).read_bytes() == (whole.output / FILE).read_bytes()


UNUSABLE: list[Any] = [
    '{"question": "What is',
    "no JSON at all",
    "",
    '{"query": "What?"}',
    '{"question": ["What?"]}',
    '{"question": "  "}',
    '{"a":' * 5000,
    "{" * 300_000,
    json.dumps({"question": "w" * 3000}),
    json.dumps({"question": "\0"}),
    {"role": "assistant", "content": None, "refusal": "I cannot."},
    {"role": "assistant", "content": [{"type": "text", "text": "What?"}]},
    REFUSAL,
    400,
]
USABLE = [
    '```json\n{"question": "What?"}\n```',
    '<think>{"question": "Why?"} {x}</think>{"question": "What?", "note": {"a": 1}}',
    '{"question": " What?\\n"} {',
    '{"question": "What\\ud83d"} \ud83d',
]


def test_what_holds_no_question_is_counted_and_left_out(chat: ChatServer, tmp_path: Path) -> None:
    """Of half a character a question mark is kept."""
    answers = [*UNUSABLE, *USABLE]

    def content(body: Any) -> Any:
        return answers[int(re.findall(r"Part: .*?(\d+)\.", body["messages"][0]["content"])[0])]

    chat.content = content
    passages = [passage(f"p{n:02d}", f"Number {n}.") for n in range(len(answers))]
    made = Asked(tmp_path, chat, passages)
    assert [q.question for q in made.questions] == ["What?"] * len(USABLE)
    assert made.events.facts["unusable_answers"] == len(UNUSABLE)
    line = f"{len(UNUSABLE)} snippets got no usable question from the language model"
    assert made.events.warnings == [line]
    again = Asked(tmp_path, chat, passages)
    assert not chat.asked and again.questions == made.questions


@given(st.dictionaries(st.text(), st.text() | st.none() | st.lists(st.integers())), st.text())
@settings(max_examples=40)
def test_a_question_is_found_in_whatever_surrounds_it(other: Any, around: str) -> None:
    answer = around.replace("{", "") + json.dumps({"other": other, "question": "Who?"}) + around
    assert value_in(answer, "question") == "Who?"
    assert value_in(around, "question") is None or "question" in around


@pytest.mark.parametrize("refused", [("response_format",), ("temperature",), ("seed", "response_format")])
def test_an_endpoint_that_takes_no_schema_is_asked_in_plain_words(
    tmp_path: Path, refused: tuple[str, ...]
) -> None:
    with chat_server(refused=refused) as chat:
        made = Asked(tmp_path, chat, concurrency=3)
        assert made.questions == EXPECTED
        assert not set(refused) & {name for body in chat.asked for name in body}
        assert sum(chat.tries.values()) <= 24 + 2 * 3, "it learns that"
        Asked(tmp_path, chat)
        assert not chat.asked


def test_a_request_that_is_rejected_alone_changes_no_other(chat: ChatServer, tmp_path: Path) -> None:
    """As by an endpoint whose model could not fill the schema once."""

    def content(body: Any) -> Any:
        rejected = "place7" in body["messages"][0]["content"] and "response_format" in body
        return 400 if rejected else question_about(body)

    chat.content = content
    assert Asked(tmp_path, chat, concurrency=1).questions == EXPECTED
    assert sum("response_format" not in body for body in chat.asked) == 1


def test_an_endpoint_that_begins_to_reject_all_ends_the_step(chat: ChatServer, tmp_path: Path) -> None:
    answers = iter([200, 200])
    chat.content = lambda body: question_about(body) if next(answers, 400) == 200 else 400
    assert "its answers are kept" in refused(tmp_path, chat, concurrency=1)
    assert sum(chat.tries.values()) == 2 + 3 * (module.PATIENCE + 1)
    chat.content = question_about
    assert Asked(tmp_path, chat).questions == EXPECTED, "what it rejected is asked again"


@pytest.mark.parametrize("number", [0, 11])
def test_a_snippet_that_is_always_rejected_is_left_out(chat: ChatServer, tmp_path: Path, number: int) -> None:
    """As one longer than the model's context; also where it is asked about first, and alone."""
    place = f"Part: The tower stood at place{number}."
    chat.content = lambda body: 400 if place in body["messages"][0]["content"] else question_about(body)
    for concurrency in (1, 4, 4):
        made = Asked(tmp_path, chat, concurrency=concurrency)
        assert made.questions == [q for q in EXPECTED if f"place{number}?" not in q.question]
        assert made.events.facts["unusable_answers"] == 1


def test_a_judge_leaves_out_what_scores_less(chat: ChatServer, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.yaml"
    text = Path(module.__file__).with_name("prompt.yaml").read_text(encoding="utf-8")
    prompt.write_text(f"{text}judge: Does '$snippet' answer '$question'?\n")

    def content(body: Any) -> str:
        words = body["messages"][0]["content"]
        asked = re.search(r"answer 'What is said of (.*)\?'", words)
        return json.dumps({"score": 4 if "place" in asked[1] else 3}) if asked else question_about(body)

    chat.content = content
    made = Asked(tmp_path, chat, prompt=str(prompt))
    assert made.questions == [q for q in EXPECTED if "place" in q.question] and len(chat.asked) == 48
    assert made.events.facts["judged_too_low"] == 12
    assert Asked(tmp_path, chat, prompt=str(prompt)).questions == made.questions and not chat.asked
    assert len(Asked(tmp_path, chat).questions) == 24 and not chat.asked, "without a judge"


def test_a_budget_ends_the_step_with_a_line_and_keeps_the_answers(chat: ChatServer, tmp_path: Path) -> None:
    line = refused(tmp_path, chat, budget=8 * USAGE, concurrency=1)
    assert line.startswith("make_questions.llm.budget=80: the answers of m in the store took 80 tokens")
    assert len(chat.asked) == 8
    assert refused(tmp_path, chat, budget=8 * USAGE) == line and not chat.asked
    Asked(tmp_path, chat, budget=24 * USAGE, concurrency=1)
    assert len(chat.asked) == 16
    Asked(tmp_path, chat, budget=1)
    assert not chat.asked, "what is known costs nothing"


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_key_that_is_refused_is_one_line_at_once(
    chat: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    chat.key = "planted-key"
    line = refused(tmp_path, chat)
    assert line.endswith("it refuses the key in OPENAI_API_KEY" + ("" if key else ", which is not set"))
    assert sum(chat.tries.values()) <= 8 and "wrong" not in line
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key\n")
    assert Asked(tmp_path, chat).questions == EXPECTED


@pytest.mark.parametrize("key", ["planted-ké", "“planted-key”", "planted\nkey"])
def test_a_key_that_no_header_holds_is_one_line(
    chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert refused(tmp_path, chat).startswith("OPENAI_API_KEY holds a character that no header can")
    assert not chat.tries


def test_a_slash_at_the_end_of_the_address_makes_no_other_endpoint(chat: ChatServer, tmp_path: Path) -> None:
    Asked(tmp_path, chat)
    again = Asked(tmp_path, chat, base_url=f"{chat.url}/")
    assert again.questions == EXPECTED and not chat.asked


@pytest.mark.parametrize(
    ("fault", "said"),
    [("500", "Error code: 500"), ("silent", "Request timed out"), ("half", "Error code: 502")],
)
def test_an_endpoint_that_stays_away_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Any, said: str
) -> None:
    monkeypatch.setattr(module, "RETRIES", 1)
    if fault == "silent":
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)

    def last(tries: int, text: str) -> Any:
        return fault if "place11" in text else "none"

    with chat_server(fault=last) as chat:
        line = refused(tmp_path, chat, concurrency=1)
        assert said in line and line.endswith("its answers are kept, and the same command goes on")
        assert chat.url in line
        answered = len(chat.asked)
        chat.fault = lambda tries, text: "none"
        assert Asked(tmp_path, chat).questions == EXPECTED
        assert len(chat.asked) == 24 - answered


@pytest.mark.parametrize(
    ("status", "said"), [(404, "no such thing"), (302, "Error code: 302"), (307, "Error code: 307")]
)
def test_a_refusal_is_one_line_and_no_snippet_goes_where_another_server_sends_it(
    chat: ChatServer, tmp_path: Path, status: int, said: str
) -> None:
    chat.content = lambda body: status
    assert "make_questions.llm: m at http" in (line := refused(tmp_path, chat)) and said in line
    assert max(chat.tries.values()) == 1


def test_a_damaged_file_of_answers_is_named(chat: ChatServer, tmp_path: Path) -> None:
    Asked(tmp_path, chat)
    (file,) = (tmp_path / "store" / names.ANSWERS).rglob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"tower", b"tower.", 1).replace(b"said", b"sold", 1))
    assert refused(tmp_path, chat).startswith(f"{file} is damaged: remove it")
    file.unlink()
    Asked(tmp_path, chat)
    assert len(chat.asked) == 24


def test_a_score_beyond_the_scale_keeps_nothing(chat: ChatServer, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.yaml"
    prompt.write_text("question: About $snippet?\njudge: Does '$snippet' answer '$question'?\nleast: 2\n")
    scores = itertools.cycle([float("nan"), float("inf"), 500, 0, True, None, "nan", "good"])
    chat.content = lambda body: json.dumps({"question": "Who?", "score": next(scores)})
    made = Asked(tmp_path, chat, prompt=str(prompt), concurrency=1)
    assert not made.questions and made.events.facts["judged_too_low"] == 24


def test_a_score_may_be_a_text(chat: ChatServer, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.yaml"
    prompt.write_text("question: About $snippet?\njudge: Does '$snippet' answer '$question'?\nleast: 2\n")
    scores = itertools.cycle(["5", "1"])
    chat.content = lambda body: json.dumps(
        {"score": next(scores)} if "answer" in body["messages"][0]["content"] else {"question": "Who?"}
    )
    made = Asked(tmp_path, chat, prompt=str(prompt), concurrency=1)
    assert len(made.questions) == made.events.facts["judged_too_low"] == 12


def test_tokens_are_estimated_where_the_endpoint_counts_none(chat: ChatServer, tmp_path: Path) -> None:
    for number, counted in enumerate([float("nan"), -5, 0, "12", True, None]):
        chat.counted = counted
        line = refused(tmp_path / f"{number}", chat, budget=5, concurrency=1)
        assert "make_questions.llm.budget=5: the answers of m" in line
    chat.usage = False
    assert "budget=2000" in refused(tmp_path, chat, budget=2000, concurrency=1)
    assert 1 < len(chat.asked) < 24
