"""Whether a corpus is written in the letters of its language."""

import pytest

from multiview.data.cjk import Scripts
from tests.fixtures.cjk_files import ARTICLES, squad_file
from tests.fixtures.inprocess import multiview_command


def problem(language: str, *texts: str) -> str | None:
    scripts = Scripts()
    scripts.add(texts)
    return scripts.problem(language)


@pytest.mark.parametrize("written", sorted(ARTICLES))
def test_letters_of_another_language_are_named_with_the_setting_that_suits_them(written):
    texts = [text for _, text, _ in ARTICLES[written]]
    line = problem("english", *texts)
    assert line is not None and line.startswith("corpus.language=english: ")
    assert f"set corpus.language={written}" in line
    assert problem(written, *texts) is None


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("english", "Plain text, naïve café, β and 東 in passing, among many more letters.", None),
        ("german", "Über den Wolken.", None),
        ("english", "Москва столица России", "set corpus.language=russian"),
        ("russian", "Москва столица России, Moscow", None),
        ("english", "กรุงเทพมหานครเป็นเมืองหลวง", "no language with these letters is known here"),
        ("english", "123 !?", None),
        ("english", "", None),
    ],
)
def test_a_corpus_is_warned_about_only_where_a_tenth_of_its_letters_is_foreign(language, text, said):
    line = problem(language, text)
    assert line is None if said is None else line is not None and said in line


def test_inspect_says_so_before_a_run(tmp_path, capsys, monkeypatch):
    file = squad_file(tmp_path / "train.json", "japanese")
    monkeypatch.setenv("COLUMNS", "200")
    printed = multiview_command(monkeypatch, capsys, "inspect", file)
    assert "corpus.language=english: " in printed and "set corpus.language=japanese" in printed
    printed = multiview_command(monkeypatch, capsys, "inspect", file, "--set", "corpus.language=japanese")
    assert "Problems\n  none\n" in printed and "Remarks" not in printed


def test_the_language_of_the_smaller_part_is_not_advised() -> None:
    line = problem("english", "The tower was built by the old king of the city. " * 3, "塔は王が建てた。" * 3)
    assert (
        line
        and "of other scripts" in line
        and line.endswith("; their sentences and answers may not be found")
    )
