"""No question without its prompt: what tokenizers are given on each path, from the warm-up to an exported model."""

import re
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

import multiview
from multiview.artifacts.record import describe_files, digest_of
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Model
from multiview.data.passages import read_passages
from multiview.data.queries import iterate_queries
from multiview.data.questions import read_questions
from multiview.errors import InputError
from multiview.export.sentence_transformers import write_sentence_transformers
from multiview.index.view_index import ViewIndex
from multiview.model.base_model.sentence_transformers import trained_prompts
from multiview.model.encoder import BiEncoder, initial_model
from multiview.model.systems import load_settings, resolve
from multiview.plans.system import training
from multiview.refresh.champion import check_champion
from multiview.serving.follow import Generation, Generations
from multiview.serving.search_service import Serving
from multiview.steps.context import StepContext
from tests.fixtures import inprocess
from tests.fixtures.answering_server import answering
from tests.fixtures.corpus import squad_corpus
from tests.fixtures.events import RecordedEvents
from tests.fixtures.project import ROOT
from tests.fixtures.sentence_transformers_base import save_base
from tests.fixtures.tiny import tiny_t5

PROMPTS = {"query": "who: ", "document": "the old city: "}
WARM_UP = "dpr/warm-up/train"
STEPS = (WARM_UP, "dpr/round-1/train", "dpr/round-2/mine", "dpr/round-2/evaluate")
"""The steps that read questions."""


class Paths:
    """A training whose base has prompts, with the texts that each step tokenises."""

    def __init__(self, base: Path, folder: Path) -> None:
        save_base(folder / "base", base, prompts=PROMPTS)
        train, dev = squad_corpus(folder, passages=12)
        settings: dict[str, Any] = {
            "corpus": {"source": [str(train), str(dev)]},
            "questions": {"source": str(train), "dev_source": str(dev)},
            "bm25": {"depth": 5},
            "model": {"base": str(folder / "base"), "architecture": "dpr", "passage_length": 48},
            "train": {
                "max_steps": 2,
                "batch_size": 4,
                "warm_up": {"max_steps": 2},
                "validate_steps": 1,
                "validation_questions": 4,
            },
            "mining": {"depth": 8},
            "encode": {"batch_tokens": 512},
            "generation": {"model": str(tiny_t5(folder / "t5")), "queries": 2, "max_length": 8},
            "evaluation": {"depth": 8},
        }
        self.store, self.texts, self.folder = LocalStore(folder / "store"), dict[str, list[str]](), folder
        real = inprocess.run_step

        def watched(step: Any, reporter: Any, *given: Any) -> Any:
            with tokenised() as self.texts[reporter.state.path]:
                return real(step, reporter, *given)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(inprocess, "run_step", watched)
            self.settings = settings
            self.records = inprocess.run_plan(training(settings), self.store)
        self.questions = [
            question.question
            for part in ("train_questions", "dev_questions")
            for question in read_questions(self.files("split", part))
        ]

    def files(self, path: str, kind: str) -> Path:
        return self.store.root / self.records[path][kind].data

    def address(self, path: str, kind: str) -> str:
        return f"{self.store.url}/{self.records[path][kind].folder}"


@contextmanager
def tokenised() -> Iterator[list[str]]:
    """The texts that any tokenizer is given."""
    texts: list[str] = []
    call = PreTrainedTokenizerFast.__call__

    def recording(self: Any, text: Any = None, *given: Any, **options: Any) -> Any:
        texts.extend([text] if isinstance(text, str) else text or ())
        return call(self, text, *given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PreTrainedTokenizerFast, "__call__", recording)
        yield texts


@pytest.fixture(scope="module")
def paths(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Paths:
    return Paths(base, tmp_path_factory.mktemp("prompts"))


def search(paths: Paths, questions: list[str]) -> None:
    multiview.load(paths.address("dpr/round-2/index", "index")).search(questions)


def serve(paths: Paths, questions: list[str]) -> None:
    retriever = multiview.load(paths.address("dpr/round-2/index", "index"))
    with answering(Serving(Generations(Generation(retriever)))) as client:
        client.search(*questions)


def export(paths: Paths, questions: list[str]) -> None:
    folder = paths.folder / "exported"
    write_sentence_transformers(paths.files("dpr/round-2/train", "model"), folder)
    SentenceTransformer(str(folder), device="cpu").encode_query(questions)


def mteb(paths: Paths, questions: list[str]) -> None:
    made = runpy.run_path(str(ROOT / "docs" / "examples" / "mteb_model.py"))["MtebModel"]
    model = made(paths.address("dpr/round-2/train", "model"), device="cpu")
    model.index([{"id": "a", "title": "", "text": "The king won."}])
    rows = [{"id": str(number), "text": question} for number, question in enumerate(questions)]
    model.search([*rows, {"id": "x", "text": questions[0], "instruction": "say"}], top_k=1)


@pytest.mark.parametrize("path", [*STEPS, search, serve, export, mteb])
def test_every_question_is_read_behind_its_prompt(
    paths: Paths, path: str | Callable[[Paths, list[str]], None]
) -> None:
    asked = paths.questions
    if path == WARM_UP:
        written = iterate_queries(paths.files("gather-queries", "queries"))
        asked = [query for _, queries in written for query in queries]
    if isinstance(path, str):
        texts = paths.texts[path]
    else:
        with tokenised() as texts:
            path(paths, asked[:3])
    read = [text for text in texts if any(question in text for question in filter(None, asked))]
    assert len(read) >= 3
    for text in read:
        assert text.startswith(PROMPTS["query"]), text


@pytest.mark.parametrize("path", [WARM_UP, "dpr/round-1/train", "dpr/round-1/encode/shard-00"])
def test_every_passage_is_read_behind_its_prompt(paths: Paths, path: str) -> None:
    titles = tuple({passage.title for passage in read_passages(paths.files("split", "passages"))})
    read = [text for text in paths.texts[path] if text.endswith(titles)]
    assert len(read) >= 3
    assert all(text.startswith(PROMPTS["document"]) for text in read), read


def test_another_prompt_is_another_model_and_none_leaves_no_trace(paths: Paths, tmp_path: Path) -> None:
    """So an index of another prompt is refused, or encoded anew by a refresh, as one of another model is."""
    own = {"question_prompt": PROMPTS["query"], "passage_prompt": PROMPTS["document"]}
    given: list[dict[str, Any]] = [{}, own, {"question_prompt": "whom: "}, dict.fromkeys(own, "")]
    digests = []
    for number, prompts in enumerate(given):
        folder = tmp_path / str(number)
        model = Model(base=str(paths.folder / "base"), architecture="dpr", passage_length=48, **prompts)
        BiEncoder.create(model).save(folder)
        digests.append(digest_of(describe_files(folder)))
        saved = load_settings(folder)
        assert (saved.question_prompt, saved.passage_prompt) == tuple(
            prompts.get(name, text) or None for name, text in own.items()
        )
    assert "prompt" not in (tmp_path / "3" / "multiview.json").read_text()
    initial = paths.records["dpr/initial-model"]["model"].digest
    assert digests[0] == digests[1] == initial and len(set(digests)) == 3
    index = ViewIndex.load(paths.files("dpr/round-2/index", "index"))
    with pytest.raises(InputError, match="the index holds views of model"):
        index.check_model(digests[2])
    address = paths.address("dpr/round-1/train", "model")
    with pytest.raises(InputError, match="model.question_prompt: 'whom: ', but .* has 'who: ': leave it out"):
        overrides = {"train": {"model": address}, "model": {"architecture": "dpr", **given[2]}}
        training({**paths.settings, **overrides})
    refresh = {"refresh": {"model": address}, "model": {"architecture": "dpr", **given[2]}}
    with pytest.raises(
        InputError, match="model.question_prompt: 'whom: ', but refresh.model: .* has 'who: '"
    ):
        check_champion(LocalStore(tmp_path / "store"), resolve({**paths.settings, **refresh}))


def test_the_documents_bases_get_the_prompts_they_were_trained_with() -> None:
    page = (ROOT / "docs" / "bases.md").read_text(encoding="utf-8")
    commands = re.findall(r"^python -m pipelines run .*model\.base=(\S+)(.*)$", page, re.M)
    assert len(commands) > 9
    for base, rest in commands:
        prompts = dict(re.findall(r"model\.(\w+)_prompt=\"(.*?)\"", rest))
        assert trained_prompts(base) == (prompts.get("question", ""), prompts.get("passage", "")), base
        assert (
            trained_prompts(f"gs://bucket/{base}/") == trained_prompts(f"{base}@v1") == trained_prompts(base)
        )
    assert trained_prompts("intfloat/e5-mistral-7b-instruct") == ("", "")


@pytest.mark.parametrize(
    ("name", "made", "given", "missed"),
    [
        ("e5-base-v2", {}, {}, ['model.question_prompt="query: "', 'model.passage_prompt="passage: "']),
        ("e5-base-v2", {}, {"question_prompt": "query: "}, ['model.passage_prompt="passage: "']),
        ("e5-base-v2", {}, {"question_prompt": "", "passage_prompt": ""}, []),
        ("e5-base-v2", PROMPTS, {}, []),
        ("all-MiniLM-L6-v2", {}, {}, []),
    ],
)
def test_a_base_without_its_prompts_is_missed_in_a_line(
    name: str, made: dict[str, str], given: dict[str, Any], missed: list[str], base: Path, tmp_path: Path
) -> None:
    folder, events = tmp_path / name, RecordedEvents()
    save_base(folder, base, prompts=made)
    settings = Config.partial({"model": Model(base=str(folder), architecture="dpr", **given)})
    initial_model(StepContext(settings, {}, {"model": tmp_path / "model"}, events))
    assert re.findall(r"model\.\w+_prompt=\".*?\"", " ".join(events.warnings)) == missed
