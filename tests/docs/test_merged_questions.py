"""docs/examples/merged_questions.py: what it writes is what a run reads."""

import json
from pathlib import Path

from multiview.data.reading.training_files import text_id
from tests.fixtures.inprocess import example


def test_equal_questions_are_one_with_the_passages_of_all(tmp_path: Path, monkeypatch, capsys) -> None:
    texts, files = ["We keep logs.", "We keep nothing."], []
    for text in texts:
        asked = [
            {"id": text, "question": "What do  you keep?", "answers": [{"text": "keep", "answer_start": 3}]}
        ]
        files.append(str(tmp_path / f"{len(files)}.json"))
        asked.append({"id": f"{text}?", "question": "Who asks?", "answers": []})  # as in SQuAD 2.0
        content = {"data": [{"title": "site.org", "paragraphs": [{"context": text, "qas": asked}]}]}
        Path(files[-1]).write_text(json.dumps(content))
    merged = tmp_path / "merged"
    printed = example(monkeypatch, capsys, "merged_questions.py", *files, "--folder", str(merged))
    assert printed.startswith("2 passages, 1 questions in ")
    (question,) = map(json.loads, (merged / "questions.jsonl").read_text().splitlines())
    ids = [text_id(text) for text in texts]
    assert question == {"qid": "q0", "question": "What do you keep?", "positive_ids": ids}
    passages = [json.loads(line) for line in (merged / "passages.jsonl").read_text().splitlines()]
    assert passages == [{"id": i, "title": "site.org", "text": t} for i, t in zip(ids, texts, strict=True)]
