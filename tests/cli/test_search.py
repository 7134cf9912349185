"""`multiview search`: which index and which questions are meant, and what is printed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

import multiview
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli import app
from multiview.cli.lookup import newest_index
from multiview.cli.search import read_questions
from multiview.errors import InputError
from multiview.steps.runs import Run, StepState, write_run, write_state
from tests.fixtures.servers import new_database

QUESTION = "Where was Tesla born?"


@pytest.fixture
def multiview_search(monkeypatch, capsys):
    """Runs the command line: (status, standard output, standard error)."""

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multiview", "search", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            app.main()
        captured = capsys.readouterr()
        status = ended.value.code or 0
        assert isinstance(status, int)
        return status, captured.out, captured.err

    for name in ("MULTIVIEW_INDEX", "MULTIVIEW_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return run


def test_json_is_what_the_library_finds(indexes, multiview_search):
    status, out, err = multiview_search(
        QUESTION, "--index", indexes.index("camvr"), "-k", "3", "--json", "--explain"
    )
    (hits,) = multiview.load(indexes.index("camvr")).search([QUESTION], k=3, explain=True)
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["question"], found["exact"], len(found["hits"])) == (QUESTION, True, 3)
    for rank, (one, hit) in enumerate(zip(found["hits"], hits, strict=True), 1):
        assert (one["rank"], one["id"], one["title"], one["text"]) == (rank, hit.id, hit.title, hit.text)
        assert one["score"] == hit.score and one["view"] == hit.best.number
        assert (one["snippet"], one["span"]) == (hit.snippet, list(hit.span) if hit.span else None)
        assert one["columns"] == {"url": hit.columns["url"], "day": hit.columns["day"].isoformat()}
        assert [view["score"] for view in one["views"]] == [view.score for view in hit.views]


def test_an_approximate_index_is_called_one(indexes, multiview_search):
    words = (QUESTION, "--index", indexes.index("pooled"))
    assert json.loads(multiview_search(*words, "--json")[1])["exact"] is False
    assert "camvr, approximate index (compact), " in multiview_search(*words)[2]


def test_questions_come_from_a_file_or_from_standard_input(indexes, tmp_path, multiview_search, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_INDEX", indexes.index("dpr"))
    asked = [*indexes.questions, "Qui a bâti l’église ?"] * 5
    content = "\ufeff" + "\r\n".join(asked) + "\n\n  \n\u200b\n"
    (tmp_path / "questions.txt").write_bytes(content.encode())
    _, out, _ = multiview_search("--questions", str(tmp_path / "questions.txt"), "-k", "1", "--json")
    assert len(asked) > 64
    assert [json.loads(line)["question"] for line in out.splitlines()] == asked
    assert multiview_search("--questions", "-", "-k", "1", "--json", stdin=content.encode())[1] == out


def test_a_closed_standard_input_is_told_and_the_narrowest_terminal_printed_on(
    indexes, multiview_search, monkeypatch
):
    for columns in ("1", "4", "5"):
        monkeypatch.setenv("COLUMNS", columns)
        assert multiview_search("Tesla?", "--index", indexes.index("camvr"), "-k", "2")[0] == 0
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed; name a file"):
        read_questions(None, Path("-"))


def test_printed_hits_mark_what_matched(indexes, multiview_search):
    status, out, err = multiview_search(QUESTION, "--index", indexes.index("camvr"), "-k", "4", "--explain")
    (hits,) = multiview.load(indexes.index("camvr")).search([QUESTION], k=4, explain=True)
    assert (
        status == 0 and indexes.index("camvr") in err and "passages; imports" in err and ", loaded in " in err
    )
    text = " ".join(out.split())
    for rank, hit in enumerate(hits, 1):
        assert f"[{hit.id}] {hit.score:.3f} view {hit.best.number}" in text
        assert f"**{' '.join((hit.snippet or '').split())}**" in text
        assert f"{rank} {hit.title}" in text or f"{rank} **{hit.title}**" in text or not hit.title
        assert f"day: {hit.columns['day']}" in text
        for view in hit.views:
            mark = "> " if view.number == hit.best.number else ""
            assert f"{mark}view {view.number} {view.score:.3f}" in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in out.splitlines())


def test_a_line_that_is_not_utf_8_is_named(indexes, multiview_search):
    words = ("--questions", "-", "--index", indexes.index("dpr"))
    status, _, err = multiview_search(*words, stdin="fine\nÄrger\n".encode("latin-1"))
    assert status == 2 and "--questions -, line 2: not UTF-8" in err
    status, _, err = multiview_search(*words)
    assert status == 2 and "--questions -: there is no question in it" in err


def test_more_passages_than_there_are_is_all_of_them_and_nothing_is_written(
    indexes, tmp_path, multiview_search, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [QUESTION, "--json", "--index", indexes.index("camvr")]
    status, out, _ = multiview_search(*words, "-k", "999999999")
    assert status == 0 and json.loads(out) == json.loads(multiview_search(*words, "-k", "1000")[1])
    assert not list(tmp_path.iterdir())


# Which index is meant.


def add_run(
    store: LocalStore, run: str, ended: float, indexes: dict[str, str], finished: bool = True
) -> None:
    """A run with an index at each path of `indexes`, and, unless it finished, a step that has not begun."""
    paths = ["split", *indexes]
    write_run(
        store, Run(id=run, pipeline="training", config={}, steps=paths if finished else [*paths, "late"])
    )
    for path in paths:
        made = {"index": Reference(address=indexes[path], digest="d")} if path in indexes else {}
        state = StepState(path=path, step="index", status="done", outputs=made, ended=ended)
        write_state(store, run, state)


def test_the_newest_index_is_that_of_the_run_that_finished_last(tmp_path):
    store = LocalStore(tmp_path)
    with pytest.raises(InputError, match="there is nothing; is it the right one"):
        newest_index(store)
    add_run(store, "a-failed", 1.0, {})
    with pytest.raises(InputError, match="no finished run with an index"):
        newest_index(store)
    add_run(store, "b-old", 1.0, {"mvr/round-1/index": "s/index/0"})
    add_run(store, "a-new", 2.0, {"camvr/round-1/index": "s/index/1", "camvr/round-2/index": "s/index/2"})
    add_run(store, "c-without", 3.0, {})
    add_run(store, "d-unfinished", 4.0, {"mvr/round-1/index": "s/index/3"}, finished=False)
    assert newest_index(store) == "s/index/2"
    (tmp_path / "runs" / "a-new" / "run.json").unlink()  # as the line about a damaged one says
    assert newest_index(store) == "s/index/0"
    add_run(store, "e-two", 5.0, {"mvr/round-2/index": "s/index/4", "dpr/round-2/index": "s/index/5"})
    with pytest.raises(InputError) as error:
        newest_index(store)
    assert "run e-two has several systems" in str(error.value)
    assert "mvr: s/index/4" in str(error.value) and "dpr: s/index/5" in str(error.value)


def test_a_run_s_index_is_found_in_the_store(indexes, tmp_path, multiview_search):
    store = LocalStore(tmp_path)
    add_run(store, "one", 1.0, {"dpr/round-0/index": indexes.index("dpr")})
    add_run(store, "other", 2.0, {"mvr/round-0/index": indexes.index("mvr")})
    words = [QUESTION, "--store", str(tmp_path), "-k", "2"]
    assert indexes.index("dpr") in multiview_search(*words, "--index", "one")[2]
    assert indexes.index("mvr") in multiview_search(*words)[2]


def test_a_registered_model_s_alias_leads_to_its_index(indexes, tmp_path, multiview_search):
    uri = new_database(tmp_path)
    client = MlflowClient(uri)
    client.create_registered_model("camvr")
    tagged = client.create_model_version(
        "camvr", "s3://elsewhere", tags={"multiview.index": indexes.index("camvr")}
    )
    client.create_model_version("camvr", indexes.index("dpr"))
    client.set_registered_model_alias("camvr", "champion", tagged.version)
    client.set_registered_model_alias("camvr", "challenger", "2")
    words = [QUESTION, "-k", "1", "--tracking-uri", uri]
    for name, system in (
        ("models:/camvr@champion", "camvr"),
        ("models:/camvr/1", "camvr"),
        ("models:/camvr@challenger", "dpr"),
    ):
        status, _, err = multiview_search(*words, "--index", name)
        assert status == 0 and indexes.index(system) in err
    status, _, err = multiview_search(*words, "--index", "models:/camvr@nobody")
    assert status == 2 and err.startswith(f"error: MLflow at {uri}: ") and "nobody" in err


def test_search_asks_the_champion(promoted_corpus, multiview_search):
    words = ("Who ran past the castle?", "--json", "--store", promoted_corpus.store.url)
    for named in ([], ["--index", "champion"]):
        assert json.loads(multiview_search(*words, *named)[1])["hits"]


def test_a_condition_on_the_corpus_s_columns_is_answered_exactly(indexes, multiview_search):
    words = (QUESTION, "--index", indexes.index("pooled"), "--where", "url is null")
    status, out, _ = multiview_search(*words, "--json")
    found = json.loads(out)
    assert status == 0 and found["exact"] and found["hits"]
    assert all(hit["columns"]["url"] is None for hit in found["hits"])
    status, _, err = multiview_search(*words[:3], "--where", "ulr is null")
    assert (status, err.count("\n")) == (2, 1)
    assert "where, character 1: there is no column 'ulr'; did you mean url?" in err
