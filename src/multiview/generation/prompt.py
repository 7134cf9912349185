"""The prompt that asks a language model for questions: a file that users may replace."""

from pathlib import Path
from string import Template
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from multiview.artifacts.store import Store
from multiview.config import Config, Section, canonical_json
from multiview.config.documents import checked, read_value
from multiview.data.reading.files import open_stream

PLACEHOLDERS = {"snippet", "title", "passage", "question"}


def _check_places(text: str) -> str:
    template = Template(text)
    text.encode()  # raises ValueError for half a character
    if not template.is_valid() or not {"snippet"} <= set(template.get_identifiers()) <= PLACEHOLDERS:
        raise ValueError("should hold $snippet, and no $ but $title, $passage, $question and $$, a dollar")
    return text


Message = Annotated[str, AfterValidator(_check_places)]
"""A text in which `$snippet`, `$title`, `$passage` and, for a judge, `$question` stand for texts."""


class Prompt(Section):
    """What is asked about a snippet."""

    question: Message
    """Asks for `{"question": "…"}`."""
    judge: Message | None = None
    """Asks for `{"score": 5}`; none: questions are not judged."""
    least: Annotated[int, Field(ge=1, le=5)] = 4
    """Lowest score of a question that is kept."""


def read_prompt(file: str | None) -> Prompt:
    """Returns the prompt in a file; for None, this package's. Raises InputError if the file holds no prompt."""
    where = f"make_questions.llm.prompt={file}"
    with open_stream(file or str(Path(__file__).with_name("prompt.yaml"))) as stream:
        content: Any = read_value(stream.read().decode(), where)
    return checked(Prompt, content, where)


def prompt_fingerprint(settings: Config, store: Store | None) -> dict[str, str]:
    """Returns the prompt: part of the key of its drafts."""
    return {"prompt": canonical_json(read_prompt(settings.make_questions.llm.prompt))}
