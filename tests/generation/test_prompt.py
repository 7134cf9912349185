"""The prompt of a language model, as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview.config import Config
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.generation.prompt import prompt_fingerprint, read_prompt
from multiview.steps.table import STEPS


def test_the_packaged_prompt_says_what_is_asked_for() -> None:
    prompt = read_prompt(None)
    assert "$snippet" in prompt.question and '{"question"' in prompt.question and prompt.judge is None


def settings(file: Path | None, **llm: object) -> Config:
    return validate({"make_questions": {"llm": {"model": "m", "prompt": file and str(file), **llm}}})


def test_drafts_have_a_key_by_what_the_prompt_says_and_not_by_its_name(tmp_path: Path) -> None:
    step = STEPS["ask-questions"]

    def key(config: Config) -> str:
        return step.key(step.parse(step.configure(config)), {}, step.fingerprint(config, None))

    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("question: Ask about $snippet")
    two.write_text("# A comment.\nquestion: 'Ask about $snippet'")
    same = key(settings(one))
    assert key(settings(two)) == same == key(settings(one, concurrency=99, budget=5))
    two.write_text("question: Ask more about $snippet")
    others = [settings(None), settings(two), settings(one, model="n"), settings(one, base_url="http://a")]
    assert len({same, *map(key, others)}) == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("question: Ask.", r"question: should hold \$snippet"),
        ("question: $snippet for $5", r"question: should hold \$snippet.* and \$\$, a dollar"),
        ("question: $snippet $answer", "question: should hold"),
        ("question: $snippet\njudge: Good?", "judge: should hold"),
        ("question: $snippet\nleast: 9", "least: .* not 9"),
        ("prompt: $snippet", "there is no setting prompt"),
        ("judge: $snippet", "question is missing"),
        ("Ask about $snippet.", "expected names with values"),
        ("a: b: c", "the value is not YAML"),
    ],
)
def test_a_prompt_that_does_not_suit_is_named(tmp_path: Path, text: str, line: str) -> None:
    (file := tmp_path / "prompt.yaml").write_text(text)
    with pytest.raises(InputError, match=f"make_questions.llm.prompt={file}: {line}"):
        prompt_fingerprint(settings(file), None)


def test_a_prompt_that_is_not_there_or_not_utf8_is_named_and_not_sent_with_other_letters(
    tmp_path: Path,
) -> None:
    file = tmp_path / "prompt.yaml"
    with pytest.raises(InputError, match="prompt.yaml"):
        read_prompt(str(file))
    file.write_bytes('question: "für $snippet"'.encode("latin-1"))
    with pytest.raises(InputError, match=f"^{file}: cannot be read .*utf-8.*; is it complete"):
        read_prompt(str(file))
