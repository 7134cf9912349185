"""JSON that is nested deeply is refused before it takes memory."""

import json
import subprocess
import sys

import pytest

from multiview.data.reading.dpr import dpr_entries
from multiview.data.reading.nesting import DEEPEST, check_nesting
from multiview.data.reading.squad import squad_paragraphs
from multiview.data.reading.tables import tables_of_rows
from multiview.errors import InputError

DEPTH = 200_000
FILES = {
    "list.json": "[" * DEPTH,
    "closed.json": "[" * DEPTH + "]" * DEPTH,
    "squad.json": '{"data": [' * DEPTH,
    "paragraph.json": '{"data": [{"paragraphs": ' + "[" * DEPTH,
    "objects.json": '{"a":' * DEPTH,
    "rows.jsonl": "[" * DEPTH + "\n",
    "column.jsonl": '{"id": "a", "text": "b", "c": ' + "[" * DEPTH + "]" * DEPTH + "}\n",
}
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from multiview.data.reading.readers import passage_tables
from multiview.errors import InputError
try:
    list(passage_tables(sys.argv[1]))
except InputError as error:
    print(error)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.parametrize("name", FILES)
def test_200_kb_of_brackets_are_one_line_and_little_memory(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    done = subprocess.run([sys.executable, "-c", READ, tmp_path / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line, megabytes = done.stdout.splitlines()
    assert "nested" in line or "not JSON" in line, line
    assert int(megabytes) < 1000


def test_brackets_within_texts_do_not_count(tmp_path):
    text = "[" * 5000 + '{\\"' * 5000
    article = {"title": "t", "paragraphs": [{"context": text, "qas": []}]}
    (tmp_path / "s.json").write_text(json.dumps({"data": [article] * 3}))
    assert [paragraph["context"] for _, paragraph in squad_paragraphs(str(tmp_path / "s.json"))] == [text] * 3
    entry = {"question": text, "answers": [text], "positive_ctxs": []}
    (tmp_path / "d.json").write_text(json.dumps([entry] * 3))
    assert [row["question"] for _, row in dpr_entries(str(tmp_path / "d.json"))] == [text] * 3


@pytest.mark.parametrize(("depth", "refused"), [(DEEPEST, False), (DEEPEST + 1, True)])
def test_the_deepest_nesting(tmp_path, depth, refused):
    (tmp_path / "x.json").write_text("[" * depth + "]" * depth)
    if refused:
        with pytest.raises(InputError, match=r"x\.json: objects or lists are nested more than 500 deep"):
            check_nesting(str(tmp_path / "x.json"))
    else:
        check_nesting(str(tmp_path / "x.json"))


def test_a_nested_column_that_json_cannot_write_is_a_line():
    nested: dict = {}
    for _ in range(100_000):
        nested = {"a": nested}
    with pytest.raises(InputError, match="column 'c'"):
        list(tables_of_rows([{"c": nested}], "x.jsonl"))
