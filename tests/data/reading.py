"""Files of the formats, and what is read from them."""

import json
from pathlib import Path

from multiview.data.questions import Question
from multiview.data.reading.readers import passage_tables, questions_of


def put(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def passages(*files: str, **more) -> list[dict]:
    return [row for file in files for table in passage_tables(file, **more) for row in table.to_pylist()]


def questions(*files: str, **more) -> list[Question]:
    return [question for _, question in questions_of(files, **more)]


def biencoder(tmp_path: Path) -> str:
    def context(id_, name="psg_id", **more):
        return {"title": f"T{id_}", "text": f"text {id_}", "score": 1000, name: id_, **more}

    rows = [
        {
            "dataset": "nq_train_psgs_w100",
            "question": "big little lies season 2 how many episodes",
            "answers": ["seven", "7"],
            "positive_ctxs": [context("18768923", "passage_id", title_score=1), context("7", "passage_id")],
            "negative_ctxs": [context("5", "passage_id")],
            "hard_negative_ctxs": [],
        },
        {"question": "none?", "answers": ["x"], "positive_ctxs": [], "negative_ctxs": [context(9)]},
        {"question": "number?", "answers": ["y"], "positive_ctxs": [context(7)]},
    ]
    return put(tmp_path / "biencoder-nq-train.json", "\ufeff" + json.dumps(rows, indent=4))


def beir(folder: Path, *splits: str) -> Path:
    put(
        folder / "corpus.jsonl",
        '{"_id": "4983", "title": "", "text": "Alterations.", "metadata": {}}\n'
        '{"_id": "5836", "title": "Myelodysplasia", "text": "Abnormal.", "metadata": {"url": "u"}}\n',
    )
    put(
        folder / "queries.jsonl",
        "".join(
            json.dumps({"_id": str(i), "text": f"claim {i}", "metadata": {"5836": [{"sentences": [1]}]}})
            + "\n"
            for i in range(5)
        ),
    )
    for number, split in enumerate(splits):
        put(
            folder / "qrels" / f"{split}.tsv",
            f"query-id\tcorpus-id\tscore\r\n{number}\t4983\t1\r\n{number}\t5836\t2\r\n4\t4983\t0\r\n",
        )
    return folder


def marco(folder: Path) -> Path:
    put(
        folder / "collection.tsv",
        '0\tThe presence of "communication\u2028amid" scientific minds\r\n1\t"Unbalanced\tquote and tab\n',
    )
    put(folder / "queries.train.tsv", '121352\tdefine extreme\n634306\twhat does "chattel" mean\n')
    put(folder / "queries.dev.small.tsv", "1048585\twhat is paula deen's brother\n2\tnot judged\n")
    put(folder / "qrels.train.tsv", "634306\t0\t1\t1\n634306\t0\t1\t1\n")
    put(folder / "qrels.dev.small.tsv", "1048585 0 0 1\n")
    put(folder / "qrels.dev.tsv", "2 0 0 1\n")
    return folder
