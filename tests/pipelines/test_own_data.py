"""The data of others' collections, from their files to figures: without answers, without gold passages, raw."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, merge
from multiview.plans.comparison import comparison
from multiview.plans.system import training
from tests.fixtures.beir_server import archive, publish
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("own"))


def rows(project: Project, name: str) -> list[dict]:
    """The questions of the small SQuAD corpus with their paragraphs, flat."""
    articles = json.loads((project.folder / "corpus" / f"{name}.json").read_text())["data"]
    return [
        {
            "pid": f"{name}-{number}",
            "title": article["title"],
            "text": article["paragraphs"][0]["context"],
            "qid": asked["id"],
            "question": asked["question"],
            "answers": [answer["text"] for answer in asked["answers"]],
        }
        for number, article in enumerate(articles)
        for asked in article["paragraphs"][0]["qas"]
    ]


def figures(project: Project, **sources) -> dict[str, dict[str, float]]:
    """The comparison's metrics of one short training, and BM25's."""
    short = ["train.rounds=1", "train.max_steps=2", "encode.compute=float32"]
    overrides = gather(str(project.folder / "tiny.yaml"), short)
    for section in ("corpus", "questions"):
        overrides[section] = sources.get(section, {})
    store = LocalStore(project.folder / "store")
    plan = comparison(merge(overrides))
    nodes = {path: node for path, node in plan.nodes.items() if node.step.name != "report"}
    record = run_plan(replace(plan, nodes=nodes), store)["compare"]["comparison"]
    return json.loads((store.root / record.data / "metrics.json").read_text())


def names(metrics: dict[str, dict[str, float]]) -> set[str]:
    return {name.rpartition("_at_")[0] for values in metrics.values() for name in values}


def write_lines(path: Path, lines: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_beir_folder_has_figures_of_gold_passages_alone(project, beir_server, monkeypatch):
    folder = project.folder / "beir"
    train, dev = rows(project, "train"), rows(project, "dev")
    passages = {
        row["pid"]: {"_id": row["pid"], "title": "", "text": row["text"], "metadata": {}}
        for row in train + dev
    }
    write_lines(folder / "corpus.jsonl", [json.dumps(row) for row in passages.values()])
    queries = [{"_id": row["qid"], "text": row["question"], "metadata": {}} for row in train + dev]
    write_lines(folder / "queries.jsonl", [json.dumps(row) for row in queries])
    for split, asked in (("train", train), ("test", dev)):
        judged = [f"{row['qid']}\t{row['pid']}\t1" for row in asked]
        write_lines(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *judged])
    metrics = figures(project, questions={"source": str(folder), "dev_source": str(folder)})
    assert set(metrics) == {"mvr", "bm25"} and names(metrics) == {"recall", "mrr", "ndcg"}
    assert metrics["bm25"]["recall_at_20"] > 0.5
    publish(beir_server, monkeypatch, "nfcorpus", archive(folder))
    by_name = {"source": "beir:nfcorpus", "dev_source": "beir:nfcorpus/test"}
    made = sorted((project.folder / "store").glob("*/*/artifact.json"))
    assert figures(project, questions=by_name) == metrics
    assert sorted((project.folder / "store").glob("*/*/artifact.json")) == made, (
        "equal content has equal keys"
    )


def test_a_trained_model_is_asked_about_a_beir_collection_without_training_questions(project, beir_server):
    store = LocalStore(project.folder / "store")
    short = ["model.architecture=mvr", "train.rounds=1", "train.max_steps=2"]
    trained = run_plan(training(gather(str(project.folder / "tiny.yaml"), short)), store)
    model = trained["mvr/round-1/train"]["model"]
    overrides = gather(str(project.folder / "tiny.yaml"), short[:1])
    overrides["train"] = {"model": f"{store.url}/{model.folder}", "rounds": 0}
    overrides["corpus"] = {"shards": 1}
    overrides["evaluation"] = {"analyses": []}
    overrides["questions"] = {"dev_source": "beir:scifact/test"}
    record = run_plan(training(overrides), store)["mvr/round-0/evaluate"]["evaluation"]
    metrics = json.loads((store.root / record.data / "metrics.json").read_text())
    assert metrics["recall_at_100"] == 1 and 0 < metrics["ndcg_at_10"] <= 1


def test_dprs_files_have_figures_of_answers_alone(project):
    folder = project.folder / "dpr"
    train, dev = rows(project, "train"), rows(project, "dev")
    number = {row["pid"]: str(i) for i, row in enumerate({r["pid"]: r for r in train + dev}.values(), 1)}
    texts = {number[row["pid"]]: (row["text"], row["title"]) for row in train + dev}
    psgs = [f'{id_}\t"{text}"\t{title}' for id_, (text, title) in texts.items()]
    source = write_lines(folder / "psgs.tsv", ["id\ttext\ttitle", *psgs])
    biencoder = [
        {
            "question": row["question"],
            "answers": row["answers"],
            "positive_ctxs": [{"psg_id": number[row["pid"]], "title": row["title"], "text": row["text"]}],
        }
        for row in train
    ]
    asked = write_lines(folder / "biencoder-train.json", [json.dumps(biencoder)])
    qa = write_lines(folder / "dev.qa.csv", [f"{row['question']}\t{row['answers']!r}" for row in dev])
    metrics = figures(project, corpus={"source": source}, questions={"source": asked, "dev_source": qa})
    assert names(metrics) == {"accuracy"}
    assert metrics["bm25"]["accuracy_at_20"] > 0.5


def test_raw_articles_and_questions_about_them(project):
    folder = project.folder / "articles"
    train, dev = rows(project, "train"), rows(project, "dev")
    for row in train + dev:
        write_lines(folder / f"{row['pid']}.txt", [row["text"]])
    asked = {
        name: write_lines(
            project.folder / f"{name}.jsonl",
            [
                json.dumps({k: row[k] for k in ("qid", "question", "answers")} | {"positive_ids": row["pid"]})
                for row in given
            ],
        )
        for name, given in (("train", train), ("dev", dev))
    }
    corpus = {"source": str(folder), "cut": "sentences", "cut_length": 20}
    metrics = figures(
        project, corpus=corpus, questions={"source": asked["train"], "dev_source": asked["dev"]}
    )
    assert names(metrics) == {"accuracy", "recall", "mrr", "ndcg"}
    assert metrics["bm25"]["recall_at_20"] > 0.5
