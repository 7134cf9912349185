"""`multiview inspect`: what is understood, counted and suggested before a run."""

import json
import shlex
import sys
from types import SimpleNamespace

import pytest

from multiview.cli.app import app, run_app
from multiview.config import Config
from multiview.config.overrides import gather, validate
from multiview.data.inspection import Lengths, inspect, sort_by_use
from multiview.errors import InputError
from tests.fixtures.format_files import beir, biencoder, marco, put
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, small_files, write


@pytest.fixture
def inspected(monkeypatch, capsys):
    """Runs `multiview inspect`, and returns all that it prints."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["multiview", "inspect", *words])
        with pytest.raises(SystemExit) as ended:
            run_app(app)
        printed = capsys.readouterr()
        assert ended.value.code == status, printed
        return printed.out + printed.err

    return run


def value(output: str, name: str) -> str:
    """The first value with that name."""
    return (
        next(line for line in output.splitlines() if line.startswith(f"  {name}  ")).split(name, 1)[1].strip()
    )


def test_the_counts_are_those_of_the_files(tmp_path, inspected):
    files = small_files(tmp_path)
    text = "One. Two. Three. Four. Five. Six. Seven. Eight. Nine."
    more = write(tmp_path / "more.jsonl", [{"id": f"m{i}", "text": text, "url": "u"} for i in range(5)])
    output = inspected(files.corpus, more, files.train, files.dev)
    assert value(output, "passages") == "30, 25 with a title"
    assert value(output, "words") == f"mean {(25 * 7 + 5 * 9) / 30:.1f}, median 7, longest 9"
    assert value(output, "sentences") == f"mean {(25 * 2 + 5 * 9) / 30:.1f}, 16.7 % have more than 8"
    assert value(output, "more columns") == "year, url"
    assert value(output, "questions") == "40" and value(output, "AVQ").startswith("2.00 ")
    assert value(output, "answers") == "1.0 per question, 40 with offsets"
    assert value(output, "first") == "p0  Title 0: Passage 0 is here. It says word0."
    assert "Problems\n  none\n" in output
    (line,) = [line for line in output.splitlines() if line.startswith("Run it:")]
    settings = [word for word in shlex.split(line) if "=" in word]
    assert settings == [
        f"corpus.source=[{files.corpus}, {more}]",
        f"questions.source={files.train}",
        f"questions.dev_source={files.dev}",
    ]
    assert validate(gather(None, settings)).corpus.source == (files.corpus, more), "the line can be typed"


def test_problems_are_counted_with_the_first_of_each(tmp_path, inspected):
    rows = passage_rows(10)
    passages = write(tmp_path / "p.jsonl", [*rows, rows[3], rows[4], {"id": "e", "text": " "}])
    asked = question_rows("t", 12, 12)
    asked[2]["answer_starts"] = [3]
    asked[5]["answers"] = []
    questions = write(tmp_path / "q.jsonl", [*asked, asked[0]])
    output = inspected(passages, questions, status=2)
    for problem in (
        "passages whose id was used before: 2, the first:\n    p.jsonl row 11: passage id 'p3' was used before, in p.jsonl row 4",
        "passages without text: 1\n    p.jsonl row 13",
        "questions with an answer that is not at its offset: their offsets are not used: 1\n    question t2",
        "questions that cannot be used: 1\n    q.jsonl row 6 (question t5): no answer",
        "questions whose id was used before: 1\n    q.jsonl row 13",
        "sources whose gold passages are not in the corpus: 1\n    questions.source: the gold passages of 2 of 11",
    ):
        assert problem in output, output
    assert (
        value(output, "gold passages")
        == "1.0 per question of the 9 that have any, not in the corpus for 2 questions"
    )


def test_each_source_is_for_what_it_holds(tmp_path):
    scifact = str(beir(tmp_path / "scifact", "train", "test"))
    covid = str(beir(tmp_path / "covid", "test"))
    msmarco = str(marco(tmp_path / "msmarco"))
    dpr, qa = biencoder(tmp_path), put(tmp_path / "nq-test.qa.csv", "who?\t['a']\n")
    files = small_files(tmp_path)
    article = put(tmp_path / "Ada.txt", "Ada was.")
    table = put(tmp_path / "mine.csv", "pid,body\n1,x\n")
    config = Config.model_validate({"questions": {"columns": {"question": "body2"}}})
    for sources, uses in (
        ([scifact], ([scifact], [scifact], [scifact])),
        ([covid], ([covid], [], [covid])),
        ([msmarco], ([msmarco], [msmarco], [msmarco])),
        ([f"{msmarco}/collection.tsv"], ([f"{msmarco}/collection.tsv"], [], [])),
        ([f"{msmarco}/queries.dev.small.tsv"], ([], [], [f"{msmarco}/queries.dev.small.tsv"])),
        ([dpr, qa], ([], [dpr], [qa])),
        ([files.corpus, files.train, files.dev], ([files.corpus], [files.train], [files.dev])),
        ([article], ([article], [], [])),
    ):
        assert tuple(sort_by_use(sources, Config()).values()) == uses, sources
    assert sort_by_use([table], config)["corpus"] == [table]
    config = Config.model_validate({"questions": {"columns": {"question": "body"}}})
    assert sort_by_use([table], config)["train"] == [table]


@pytest.mark.parametrize(
    "name", ["topic.dev.tsv", "questions.search.dev.tsv", "query.dev.tsv", "question.dev.tsv"]
)
def test_a_name_tells_queries_from_passages_without_a_header(tmp_path, name):
    """As Mr.TyDi's and LoTTE's; of articles a name is the title, and what names its columns is told by them."""
    queries = put(tmp_path / name, "q1\twho was it\nq2\twhere was it\n")
    assert sort_by_use([queries], Config())["dev"] == [queries]
    word = name.partition(".")[0]
    for file, content in (
        (f"The {word} of Orlen.txt", "Orlen."),
        (f"by-{word}.jsonl", '{"id": "a", "text": "x"}\n'),
    ):
        assert sort_by_use([put(tmp_path / file, content)], Config())["corpus"] == [str(tmp_path / file)]


def test_a_source_of_several_things_is_taken_apart(tmp_path):
    scifact = str(beir(tmp_path / "scifact", "train", "test"))
    files = small_files(tmp_path / "mixed")
    squads = [put(tmp_path / "squad" / f"{name}.json", '{"data": []}') for name in ("dev", "train")]
    latest = write(tmp_path / "latest.jsonl", question_rows("t", 3, 3))
    answers = write(tmp_path / "answers.jsonl", [{"qid": "1", "question": "?", "answers": ["a"]}])
    alone = tmp_path / "alone"
    put(alone / "corpus.jsonl", '{"_id": "1", "text": "x"}\n')
    msmarco = marco(tmp_path / "msmarco")
    judged = [
        f"{msmarco}/{name}" for name in ("collection.tsv", "queries.dev.small.tsv", "qrels.dev.small.tsv")
    ]
    for sources, uses in (
        ([f"{scifact}/qrels/test.tsv"], ([f"{scifact}/corpus.jsonl"], [], [f"{scifact}/qrels/test.tsv"])),
        ([str(tmp_path / "mixed")], ([files.corpus], [files.train], [files.dev])),
        ([str(tmp_path / "squad")], ([], squads[1:], squads[:1])),
        ([latest], ([], [latest], [])),
        ([answers], ([], [], [answers])),
        ([str(alone)], ([str(alone)], [], [])),
        (
            [f"{scifact}/{name}" for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")],
            ([f"{scifact}/corpus.jsonl"], [], [f"{scifact}/qrels/test.tsv"]),
        ),
        (judged, ([judged[0]], [], judged[1:])),
    ):
        assert tuple(sort_by_use(sources, Config()).values()) == uses, sources


def test_passages_that_come_again_are_counted_once(tmp_path):
    article = {"context": "One. Two.", "qas": []}
    asked = [{"id": "1", "question": "?", "answers": [{"text": "One", "answer_start": 0}]}]
    data = [{"title": "T", "paragraphs": [article, {**article, "qas": asked}]}]
    file = put(tmp_path / "train.json", json.dumps({"data": data}))
    found = inspect(Config.model_validate({"questions": {"source": file}}), lambda number: None)
    assert found.passages == 1 and found.words == {2: 1}


@pytest.mark.parametrize(
    ("passages", "gold", "more", "line"),
    [
        (3, 3, {"shards": 4}, "corpus.shards=4: the corpus has only 3 passages; set fewer shards"),
        (5, 2, {"shards": 3, "keep": "gold"}, "corpus.shards=3: the corpus has only 2 passages; set fewer shards"),
        (3, 1, {"dev_source": ()}, "questions.source: all questions are about one passage, or ask the same, so nothing can be held out"),
        (3, 3, {"hard_negatives": "given"}, "questions.hard_negatives=given: no training question names a negative"),
        (3, 9, {}, "questions.source: the gold passages of 5 of 8 questions are not in the corpus"),
    ],
)  # fmt: skip
def test_what_a_run_refuses_is_a_problem_in_the_same_words(tmp_path, passages, gold, more, line):
    files = SimpleNamespace(
        corpus=write(tmp_path / "p.jsonl", passage_rows(passages)),
        train=write(tmp_path / "t.jsonl", question_rows("t", 8, gold)),
        dev=write(tmp_path / "d.jsonl", question_rows("d", 2, 2)),
    )
    corpus, questions = settings(files, **{"shards": 1} | more)
    with pytest.raises(InputError) as refused:
        Done(tmp_path / "out", corpus, questions)
    assert str(refused.value).startswith(line)
    found = inspect(Config.partial({"corpus": corpus, "questions": questions}), lambda number: None)
    assert str(refused.value) in found.problems.first.values()


def test_a_pattern_is_quoted_for_the_settings(tmp_path, inspected, monkeypatch):
    write(tmp_path / "a, b.jsonl", passage_rows(3))
    pattern = str(tmp_path / "*.jsonl")
    output = inspected(pattern, str(tmp_path / "a, b.jsonl"))
    assert value(output, "passages") == "3, 3 with a title"
    monkeypatch.chdir(tmp_path)
    assert "Problems\n  none" in inspected("*.jsonl")


def test_what_comes_without_answers_or_without_passages_is_said(tmp_path, inspected):
    scifact = str(beir(tmp_path / "scifact", "train", "test"))
    output = inspected(scifact)
    assert value(output, "answers") == "none: ranked by gold passages alone"
    assert output.count("judgements (qrels)") == 2
    psgs = put(tmp_path / "psgs_w100.tsv", "id\ttext\ttitle\n7\tx\tT\n18768923\ty\tU\n")
    qa = put(tmp_path / "nq-test.qa.csv", "who?\t['a', 'b']\n")
    words = [psgs, biencoder(tmp_path), qa, "--set", "questions.max_missing_gold=0.5"]
    words += ["--set", "questions.free_answers=true"]
    output = inspected(*words)
    assert "none: ranked by answers alone" in output and "--set questions.max_missing_gold=0.5" in output
    output = inspected(psgs, qa)
    assert "name training questions: --set questions.source=…" in output


def test_questions_of_both_sets_are_kept_by_a_run_and_never_said_to_be_left_out(tmp_path, inspected):
    folder = beir(tmp_path / "scifact", "train", "test")
    judgements = (folder / "qrels/train.tsv").read_text().splitlines(keepends=True)
    with (folder / "qrels/test.tsv").open("a") as file:
        file.writelines(judgements[1:])
    output = inspected(str(folder))
    assert "Problems\n  none\n\nRemarks\n" in output
    (line,) = [line.strip() for line in output.splitlines() if "both train and dev" in line]
    assert line.startswith("questions in both train and dev: both keep them")
    done = Done(
        tmp_path / "out",
        *settings(SimpleNamespace(corpus=str(folder), train=str(folder), dev=str(folder)), shards=1),
    )
    assert f"{line}, the first: question 0" in done.events.warnings, "the run says the same"
    assert [q.qid for q in done.train] == ["0"] and {q.qid for q in done.dev} == {"0", "1"}, "and does it"


def test_sentence_data_that_are_not_installed_are_no_problem_of_the_sources(tmp_path, inspected):
    files = small_files(tmp_path)
    words = (files.corpus, files.train, "--set", "corpus.language=malayalam")
    printed = inspected(*words, status=2)
    assert printed == (
        "error: corpus.language=malayalam: NLTK's sentence data for it are not installed; run: "
        "python -m nltk.downloader punkt_tab (in a checkout: python images/sentence_data.py malayalam)\n"
    )


@pytest.mark.parametrize("numbers", [[], [5], [1, 2], [3, 1, 2], [4, 4, 1, 9]])
def test_lengths_are_counted(numbers):
    lengths = Lengths(numbers)
    expected = sorted(numbers)[(len(numbers) - 1) // 2] if numbers else 0
    assert (lengths.median, lengths.longest) == (expected, max(numbers, default=0))
    assert lengths.mean == pytest.approx(sum(numbers) / len(numbers) if numbers else 0)
    assert lengths.above(3) == pytest.approx(sum(n > 3 for n in numbers) / max(1, len(numbers)))


def test_it_reads_what_a_run_reads(tmp_path):
    """The same questions and ids as the split step writes."""
    files = small_files(tmp_path)
    done = Done(tmp_path / "out", *settings(files))
    config = Config.model_validate(
        {"corpus": {"source": files.corpus}, "questions": {"source": files.train, "dev_source": files.dev}}
    )
    found = inspect(config, lambda number: None)
    assert found.questions == {"train": done.train, "dev": done.dev}
    assert found.passages == len(done.passages)
    assert [passage["id"] for passage in found.first_passages] == done.ids[:3]


def test_its_figures_of_questions_are_those_of_a_run(tmp_path):
    """Of some passages that are there and some that are not, and fewer questions than there are."""
    passages = write(tmp_path / "passages.jsonl", passage_rows(5))
    rows = [{"qid": f"{n}", "question": f"{n}?", "positive_ids": [f"p{n % 4}", "gone"]} for n in range(20)]
    lost = [{"qid": f"lost-{n}", "question": f"{n}!", "positive_ids": ["gone"]} for n in range(10)]
    train, dev = write(tmp_path / "train.jsonl", rows + lost), write(tmp_path / "dev.jsonl", rows)
    files = SimpleNamespace(corpus=passages, train=train, dev=dev)
    for more in ({}, {"limit": 6}, {"one_per_passage": True}):
        corpus, questions = settings(files, max_missing_gold=0.6, **more)
        done = Done(tmp_path / f"out-{len(more)}-{more.get('limit')}", corpus, questions)
        found = inspect(Config(corpus=corpus, questions=questions), lambda number: None)
        assert found.avq == done.events.facts["avq"] and [*found.trained] == done.train
        assert found.gold_passages == {"train": [1] * 20 + [0] * 10, "dev": [1] * 20}


def test_columns_that_are_not_read_are_named_and_one_that_may_hold_gold_passages_is_suggested(
    tmp_path, inspected
):
    passages = write(tmp_path / "passages.jsonl", passage_rows(5))
    named = ({"qid": f"q{n}", "answers": [f"word{n}"], "positive_passage_id": f"p{n}"} for n in range(5))
    train = write(tmp_path / "train.jsonl", [{"question": "?", **each, "source": "x"} for each in named])
    output = inspected(passages, train, status=2)
    assert value(output, "not read") == "positive_passage_id, source"
    assert (
        "questions.source: if its column positive_passage_id names them, set questions.columns={positive_ids: positive_passage_id}"
        in output
    )
    words = (passages, train, "--set", "questions.columns={positive_ids: positive_passage_id}")
    output = inspected(*words)
    assert value(output, "not read") == "source" and "Remarks" not in output
    assert value(output, "AVQ").startswith("1.00")


def test_on_a_narrow_terminal_no_figure_is_cut(tmp_path, monkeypatch, inspected):
    (tmp_path / "p.jsonl").write_text(
        '{"id": "a-very-long-identifier-0001", "text": "One two. Three four."}\n{"id": "b", "text": "Five."}\n'
    )
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    rows = " ".join(inspected("p.jsonl", "--set", "corpus.shards=1").split())
    assert "mean 2.5, median 1, longest 4" in rows and "have more than 8" in rows
    assert "a-very-long… One" in rows, "an id leaves room for its text"
    assert "1 passages" not in rows
