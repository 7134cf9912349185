"""Any bytes, texts and settings: a result that holds together, or one line; never anything else.

`make test` tries dozens of each, `make torture` thousands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from itertools import count, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview.artifacts.record import parse_record
from multiview.artifacts.store import LocalStore
from multiview.cli.settings import flattened, written
from multiview.config import Config, Corpus, Questions
from multiview.config.overrides import gather, parse_settings, validate
from multiview.data.answers import find_answers, has_answer
from multiview.data.reading.articles import by_sentences, by_words
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.values import is_blank
from multiview.data.sentences import sentence_ends
from multiview.data.tokens import Mode
from multiview.errors import InputError
from multiview.index.view_index import ViewIndex
from multiview.serving.where import Where
from tests.bad_input.readers import SEEDS, WORDS, check_line, read
from tests.fixtures.artifacts import write_embeddings, write_index
from tests.fixtures.published import publish
from tests.fixtures.split_run import Done
from tests.fixtures.tally import FUZZED, Tally

pytestmark = pytest.mark.fuzz

UNCHECKED = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
TORTURE = settings.get_current_profile_name() == "torture"
EXAMPLES = settings.default.max_examples if TORTURE and settings.default else 60

ODD = ("\0", "\x1b[31m", "\u202e", "\ufeff", "\u2028", "\r\n", "\x85", "e\u0301", "ﬁ", "ß", "İ", "😀", "👩‍👩‍👧", "東京。", "ไทย", "한국어", "..", "/", "²", "a" * 300, "。」と", "?!", " ")  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_categories=["Cs"]), max_size=12)), max_size=8).map("".join)  # fmt: skip
WITH_HALVES = st.text(max_size=20)


def fuzz(
    tally: Tally, of: str, strategy: st.SearchStrategy, body: Callable, examples: int = EXAMPLES
) -> None:
    """Tries a body with many values, and counts them."""
    tries = 0

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=UNCHECKED)
    @given(strategy)
    def tried(value: object) -> None:
        nonlocal tries
        tries += 1
        body(value)

    try:
        tried()
    finally:
        tally.add(FUZZED, tries, of)


@st.composite
def mutated(draw: st.DrawFn, seed: bytes) -> bytes:
    """A file with pieces cut out, repeated, replaced and put in."""
    content = seed
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.integers(0, 12)))
        piece = draw(
            st.one_of(
                st.sampled_from(WORDS), st.binary(max_size=6), st.just(b""), st.just(content[start:stop] * 3)
            )
        )
        content = content[:start] + piece + content[stop:]
    return content


def test_there_is_a_file_of_every_format(tmp_path):
    for name, content in SEEDS.items():
        (tmp_path / name).write_bytes(content)
    found = {detect(str(tmp_path / name), "auto", "corpus.format") for name in SEEDS}
    assert found == FORMATS.keys()


@pytest.mark.parametrize("name", SEEDS)
def test_any_file_is_read_or_refused(name, tmp_path, tally):
    result = read(tmp_path, name, SEEDS[name])
    assert result.passages or result.questions or "qrels" in name or "triples" in name
    fuzz(tally, "readers", mutated(SEEDS[name]), lambda content: read(tmp_path, name, content))


def test_sentences_and_passages_cover_any_text(tally):
    def body(value: tuple[str, str, int]) -> None:
        text, language, length = value
        ends = sentence_ends(text, language)
        assert list(ends) == sorted(set(ends)) and (ends[-1] == len(text) if text else not ends)
        for spans in (by_words(text, length, language), by_sentences(text, ends, length, language)):
            cut = [text[start:stop] for start, stop in spans]
            assert "".join("".join(cut).split()) == "".join(text.split())
            assert all(before[1] <= after[0] for before, after in pairwise(spans))

    languages = st.sampled_from(["english", "japanese", "chinese", "korean"])
    fuzz(tally, "splitting", st.tuples(TEXTS, languages, st.integers(1, 5)), body)


def test_answers_are_found_within_any_text(tally):
    def body(value: tuple[str, list[str], Mode]) -> None:
        text, answers, mode = value
        try:
            spans = find_answers(text, answers, mode)
            assert bool(spans) == has_answer(text, answers, mode)
        except InputError as error:
            assert mode == "regex"
            check_line(error)
            return
        assert all(0 <= start < stop <= len(text) for start, stop in spans)
        if mode != "regex":
            for answer in answers:
                if find_answers(answer, [answer], mode):
                    assert find_answers(f"{text} {answer} {text}", [answer], mode), "an answer that is there"

    pieces = st.one_of(TEXTS, st.text("()[]{}*+?|\\^$.ab", max_size=8))
    modes = st.sampled_from(["string", "characters", "regex"])
    fuzz(tally, "answer matching", st.tuples(TEXTS, st.lists(pieces, max_size=3), modes), body)


def test_any_corpus_is_split_or_refused(tmp_path, tally):
    """Each passage once, its sentences cover its text, and its id is that of the file."""
    number = 0

    def body(rows: list[tuple[str, str, str]]) -> None:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        passages = [{"id": id_, "title": title, "text": text} for id_, title, text in rows]
        asked = [{"qid": f"q{id_}", "question": f"{id_}?", "positive_ids": [id_]} for id_, *_ in rows]
        for name, lines in (("p.jsonl", passages), ("q.jsonl", asked)):
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        source = (str(folder / "q.jsonl"),)
        try:
            done = Done(
                folder / "out",
                Corpus(source=(str(folder / "p.jsonl"),), shards=1),
                Questions(source=source, dev_source=source),
            )
        except InputError as error:
            check_line(error)
            return
        shown = [(id_, *("" if is_blank(each) else each for each in texts)) for id_, *texts in rows]
        assert [(each.id, each.title, each.text) for each in done.passages] == shown
        assert len(set(done.ids)) == len(rows)
        assert all((each.sentence_ends[-1:] or (0,))[0] == len(each.text) for each in done.passages)
        assert [question.positive_ids for question in done.train] == [(id_,) for id_ in done.ids]
        assert sorted(path.name for path in folder.iterdir()) == ["out", "p.jsonl", "q.jsonl"]

    texts = st.one_of(TEXTS, TEXTS, WITH_HALVES)
    rows = st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4)
    fuzz(tally, "split", rows, body, EXAMPLES // 4)


TABLE = pa.RecordBatch.from_pylist(
    [{"id": "a", "name": "x", "n": 1, "x": 0.5, "ok": True, "tags": ["a"], "day": date(2020, 1, 2)}]
)
SETTINGS = [f"{name}={value}" for name, value in flattened(json.loads(Config().model_dump_json()))]
YAML = st.one_of(
    st.text(max_size=20),
    st.text("{}[]:,'\"&*!|>%@`# -.0123456789eE_ab\n", max_size=20),
    st.sampled_from(["~", "2020-01-01", "2020-99-99", "0o8", "0b2", "1:60", "!!binary =", "=", "<<", "{<<: 5}", "&a [*a]", "? a", "1e999", ".nan", "{1: 2}", "{~: 2}", "{true: 1}", "!!set {a}", "!!omap [a: 1]", "!!python/none", "- a", "\ud83d", "\0"]),
)  # fmt: skip


def test_any_setting_is_taken_or_refused(tally):
    def body(given: list[tuple[str, str]]) -> None:
        try:
            overrides = gather(None, [f"{name.partition('=')[0]}={value}" for name, value in given])
            config = validate(overrides)
        except InputError as error:
            check_line(error)
            return
        config.key_settings()
        assert all("\n" not in written(value) for _, value in flattened(overrides))
        assert validate(json.loads(config.model_dump_json())) == config

    names = st.one_of(
        st.sampled_from(SETTINGS), st.sampled_from([*Config.model_fields]), st.text(".=ab", max_size=6)
    )
    fuzz(tally, "settings", st.lists(st.tuples(names, YAML), min_size=1, max_size=2), body, 4 * EXAMPLES)


def test_any_text_of_settings_is_taken_or_refused(tally):
    def body(text: str) -> None:
        try:
            validate(parse_settings(text))
        except InputError as error:
            check_line(error)

    pieces = st.one_of(
        st.sampled_from(SETTINGS), st.sampled_from([";", "\n", ".", "=", "  "]), st.text(max_size=5)
    )
    fuzz(tally, "settings", st.lists(pieces, max_size=6).map("".join), body)


def test_any_condition_is_taken_or_refused(tally):
    def body(text: str) -> None:
        try:
            mask = Where(text, TABLE.schema).mask(TABLE)
        except InputError as error:
            check_line(error)
            assert str(error).startswith("where")
        else:
            assert (mask.dtype, len(mask)) == (bool, TABLE.num_rows)

    words = ["n", "x", "ok", "day", "tags", "name", "columns['n']", "==", "!=", "<", ">=", "in", "not in", "is", "is not", "and", "or", "not", "(", ")", "null", "true", "1", "-1", "1.5", "9" * 30, "1e999", "1j", "'a'", '"2020-01-01"', "b'a'", "f'{n}'", "...", "lambda: 1", "n.x", "n[0]", "*n", "n if ok else x", "[n for n in x]", ":=", "\\", "#", "\0", "\ud83d"]  # fmt: skip
    fuzz(
        tally,
        "where",
        st.lists(st.one_of(st.sampled_from(words), st.text(max_size=3)), max_size=9).map(" ".join),
        body,
        4 * EXAMPLES,
    )


def test_any_record_is_read_or_refused(tmp_path, tally):
    intact = publish(LocalStore(tmp_path), "k", "text")[0].to_json()
    assert parse_record(intact, "s/k/1").to_json() == intact

    def body(content: bytes) -> None:
        try:
            record = parse_record(content, "s/k/1")
        except InputError as error:
            check_line(error)
        else:
            assert json.loads(record.to_json()) == json.loads(intact), "an altered record was taken"

    values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)  # fmt: skip
    fields = st.sampled_from(sorted(json.loads(intact)))
    changed = st.tuples(fields, values).map(
        lambda pair: json.dumps(json.loads(intact) | dict([pair])).encode()
    )
    deep = st.just(b"[" * 100_000)
    fuzz(
        tally,
        "records",
        st.one_of(mutated(intact), changed, deep, values.map(lambda value: json.dumps(value).encode())),
        body,
    )


def test_vectors_of_any_numbers_are_indexed_and_searched_or_refused(tmp_path, tally):
    """NaN, infinities and numbers beyond float16 at any place of a shard's views or of a question."""
    numbers = st.one_of(
        st.sampled_from([np.nan, np.inf, -np.inf, 70_000.0, -0.0, 6e-8, 65504.0]), st.floats(-1, 1, width=16)
    )
    folders = count()

    def body(drawn: tuple[list[float], list[float]]) -> None:
        views, question = np.array(drawn[0], np.float64).reshape(6, 2), np.array([drawn[1]], np.float32)
        folder = tmp_path / str(next(folders))
        is_whole = bool((np.abs(views) <= 65504).all())
        try:
            shard = write_embeddings(folder / "shard", ["a", "b", "c"], [views[:2], views[2:3], views[3:]])
        except InputError as error:
            check_line(error)
            assert not is_whole and re.search("contains NaN|does not fit into float16", str(error))
            return
        assert is_whole
        write_index(folder / "index", shard)
        index = ViewIndex.load(folder / "index")
        try:
            found = index.search(question, 3)
        except ValueError as error:
            assert "not finite" in str(error) and not np.isfinite(question).all()
            return
        scores = (views.astype(np.float16).astype(np.float64) * question[0].astype(np.float64)).sum(axis=1)
        best = np.maximum.reduceat(scores, [0, 2, 3])
        assert found.scores[0].tolist() == sorted(best.astype(np.float32).tolist(), reverse=True)

    pairs = st.tuples(st.lists(numbers, min_size=12, max_size=12), st.lists(numbers, min_size=2, max_size=2))
    fuzz(tally, "vectors", pairs, body, max(EXAMPLES // 4, 20))
