"""Questions about snippets that a language model asks, through an endpoint that speaks OpenAI's chat API.

Every answer is kept in the store by a digest of its request, so that none is paid for twice: a run after one that was
killed, or with another share, seed or number of shards, asks only for what is missing. Drafts depend on the kept
answers alone.
"""

import asyncio
import contextlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from string import Template
from typing import Any

from multiview import environment, names
from multiview.artifacts.store import Store
from multiview.config import JsonObject, canonical_json, text_sha256
from multiview.config.data import LanguageModel
from multiview.errors import InputError, counted
from multiview.generation.make_questions import QuestionSnippet, write_drafts
from multiview.generation.prompt import read_prompt
from multiview.steps.context import StepContext

try:
    from openai import APIError, AsyncOpenAI, DefaultAsyncHttpxClient
except ImportError as error:
    line = f"questions.origin=llm needs OpenAI's client: pip install '{names.DISTRIBUTION}[llm]'"
    raise InputError(line) from error

TIMEOUT_SECONDS, RETRIES = 120.0, 12
"""Seconds that an answer may take, and how often the client tries again, after waits of up to 8 seconds."""
BRACES = 20
"""Opening braces in an answer, counted from its end, that are tried as the beginning of an object."""
LONGEST = 2000
"""Most code points of a question."""
ROUNDS = 32
"""Snippets per slot of `concurrency` after which answers are written: the most whose answers a killed process loses."""
LEFT_OUT = ((), ("response_format",), ("response_format", "temperature", "seed"))
"""Fields that a request leaves out: each next tuple is tried where the endpoint rejects it as bad."""
PATIENCE = 20
"""Requests in a row that may be rejected in every form, as those longer than the model's context are."""


class Answers:
    """The answers in a folder of a store: their texts by the request's digest, None where it was refused, and the tokens
    of all requests and answers."""

    def __init__(self, store: Store, folder: str) -> None:
        self.texts, self.tokens = dict[str, str | None](), 0
        self._store, self._folder = store, folder
        self._new, self._files = list[str](), set[str]()
        self.exchange()

    def add(self, request: str, text: str | None, tokens: int) -> None:
        self.texts.setdefault(request, text)
        self.tokens += tokens
        self._new.append(json.dumps([request, text, tokens]))

    def exchange(self) -> None:
        """Writes new answers as a file named by its digest, and reads others'. Raises InputError for a damaged file."""
        if self._new:
            data = "\n".join(self._new)
            self._files.add(file := f"{self._folder}/{text_sha256(data)[:32]}.jsonl")
            self._store.create(file, data.encode())
        for file in self._store.files(self._folder):
            if file.endswith(".jsonl") and file not in self._files:
                data = (self._store.read(file) or b"").decode(errors="replace")
                if text_sha256(data)[:32] not in file:
                    way_out = "remove it, and its questions are asked again"
                    raise InputError(f"{self._store.url}/{file} is damaged: {way_out}")
                self._files.add(file)
                for line in data.splitlines():
                    self.add(*json.loads(line))
        self._new.clear()


def value_in(answer: str | None, name: str) -> object:
    """Returns the value of a name in the last JSON object of an answer that has it; None if there is none.

    >>> value_in('As JSON: ```{"question": "Who?"}```', "question"), value_in('{"question": "Wh', "question")
    ('Who?', None)
    """
    for brace in [*re.finditer("{", answer or "")][: -BRACES - 1 : -1]:
        with suppress(ValueError, RecursionError):
            found, _ = json.JSONDecoder().raw_decode(answer or "", brace.start())
            if name in found:
                return found[name]
    return None


async def _refuse_broken(response: Any) -> None:
    """Turns a response that is not a whole chat completion into a server error, after which the client tries again."""
    await response.aread()
    try:
        _ = response.is_success and response.json()["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        response.status_code = 502


class Questioner:
    """Asks the endpoint for questions. Raises InputError where it cannot be asked, or the budget is spent."""

    def __init__(self, settings: LanguageModel, store: Store) -> None:
        self._settings, self._budget, self._prompt = settings, settings.budget, read_prompt(settings.prompt)
        place = canonical_json([settings.base_url.removesuffix("/"), settings.model])
        self.answers = Answers(store, f"{names.ANSWERS}/{text_sha256(place)[:32]}")
        self.left_out = Counter[str](unusable_answers=0, judged_too_low=0)
        self._key = os.environ.get(environment.OPENAI_API_KEY, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise InputError(
                f"{environment.OPENAI_API_KEY} holds a character that no header can; copy the key again"
            )
        self.client = AsyncOpenAI(
            api_key=self._key or "none",
            base_url=settings.base_url,
            timeout=TIMEOUT_SECONDS,
            max_retries=RETRIES,
            # A redirect must not send snippets to another server.
            http_client=DefaultAsyncHttpxClient(
                event_hooks={"response": [_refuse_broken]}, follow_redirects=False
            ),
        )
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._way: int | None = None  # the least that an answered request left out
        self._rejected: list[str] = []  # since the last answer
        self._failure: InputError | None = None

    async def questions(self, snippets: Sequence[QuestionSnippet]) -> list[str]:
        """Returns the question about each snippet, empty if unusable. Raises errors once all requests have ended."""
        self._locks = defaultdict[str, asyncio.Lock](asyncio.Lock)
        tasks = [asyncio.ensure_future(self._question(snippet)) for snippet in snippets]
        await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]

    async def _question(self, snippet: QuestionSnippet) -> str:
        texts = {"snippet": snippet.text, "title": snippet.passage.title, "passage": snippet.passage.text}
        found = await self._ask(self._prompt.question, texts | {"question": ""}, "question", "string")
        # JSON may hold lone surrogates, which no file can.
        question = " ".join(found.encode(errors="replace").decode().split()) if isinstance(found, str) else ""
        if not 0 < len(question) <= LONGEST or "\0" in question:
            self.left_out["unusable_answers"] += 1
            return ""
        if self._prompt.judge:
            score = await self._ask(self._prompt.judge, texts | {"question": question}, "score", "integer")
            if isinstance(score, str):
                with contextlib.suppress(ValueError):
                    score = float(score)
            if not isinstance(score, int | float) or not self._prompt.least <= score <= 5:
                self.left_out["judged_too_low"] += 1
                return ""
        return question

    async def _ask(self, template: str, texts: dict[str, str], name: str, kind: str) -> object:
        """Returns the value of `name` in the answer to a request, which is sent unless its answer is known."""
        schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
        form = {"name": name, "strict": True, "schema": {**schema, "additionalProperties": False}}
        request = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": Template(template).substitute(texts)}],
            "response_format": {"type": "json_schema", "json_schema": form},
            "temperature": 0,
            "seed": 0,
        }
        digest, known = text_sha256(canonical_json(request))[:32], self.answers.texts
        if digest not in known:
            async with self._locks[digest], self._slots:
                if digest not in known:
                    if (answer := await self._send(request, self._way or 0)) is None:
                        known[digest] = None
                        self._rejected.append(digest)
                    else:
                        self.answers.add(digest, *answer)
                        # The endpoint answers, so what it rejected before is kept as having no answer.
                        while self._rejected:
                            self.answers.add(self._rejected.pop(), None, 0)
        return value_in(known[digest], name)

    async def _send(self, request: JsonObject, way: int) -> tuple[str | None, int] | None:
        """Returns the answer to a request, which leaves out `LEFT_OUT[way]`, and the tokens of both; None where it is
        rejected in every form."""
        budget, spent = self._budget, self.answers.tokens
        if budget is not None and spent >= budget and not self._failure:
            self._failure = InputError(
                f"make_questions.llm.budget={budget}: the answers of {self._settings.model} in the store took {spent:,} "
                "tokens; set a larger budget, or a smaller make_questions.share"
            )
        if self._failure:
            raise self._failure
        sent: Any = {name: value for name, value in request.items() if name not in LEFT_OUT[way]}
        try:
            completion: Any = await self.client.chat.completions.create(**sent)
        except APIError as error:
            status = getattr(error, "status_code", 0)
            if error.code == "content_filter":  # Azure's word for a refusal
                return None, 0
            if status in (400, 422) and way + 1 < len(LEFT_OUT):
                return await self._send(request, way + 1)
            if status in (400, 422) and len(self._rejected) < PATIENCE:
                return None
            message = error.message.replace(self._key, "…") if self._key else error.message
            if status == 502:
                message += " (or no chat completion: is base_url right?)"
            said = f"{message}; its answers are kept, and the same command goes on"
            if status in (401, 403):  # the message may repeat a part of the key
                said = f"it refuses the key in OPENAI_API_KEY{'' if self._key else ', which is not set'}"
            where = f"make_questions.llm: {self._settings.model} at {self._settings.base_url}"
            self._failure = InputError(f"{where}: {said}")
            raise self._failure from error
        self._way = way if self._way is None else min(way, self._way)
        # Where the endpoint does not count tokens, one is taken as three characters of the request.
        tokens = getattr(completion.usage, "total_tokens", None)
        if type(tokens) is not int or tokens < 1:
            tokens = len(canonical_json(request)) // 3
        text = completion.choices[0].message.content
        return text if isinstance(text, str) else None, tokens


def ask_questions(context: StepContext) -> None:
    """Step: drafts questions for one shard of `passages` with a language model, one per snippet, into `drafts`.

    Snippets without a usable question are left out and counted. Answers are in the store even if the step fails.
    """
    settings = context.settings.make_questions.llm
    questioner, size = Questioner(settings, context.store), settings.concurrency * ROUNDS
    with asyncio.Runner() as runner:

        def ask(snippets: Sequence[QuestionSnippet]) -> Iterator[tuple[int, str]]:
            for first in range(0, len(snippets), size):
                try:
                    made = runner.run(questioner.questions(snippets[first : first + size]))
                finally:
                    questioner.answers.exchange()
                yield from enumerate(made, first)

        write_drafts(context, ask)
        runner.run(questioner.client.close())
    context.events.fact(**questioner.left_out)
    if left_out := questioner.left_out.total():
        context.events.warning(
            f"{counted(left_out, 'snippet')} got no usable question from the language model"
        )
