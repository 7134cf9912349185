"""All analyses of a model by name, and the files that they write into the evaluation artifact."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from multiview import names
from multiview.config import Analysis
from multiview.encoding.batches import Buckets
from multiview.encoding.encode import Encoder
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable, Table
from multiview.evaluation.analyses.answers import answer_view, training_answers
from multiview.evaluation.analyses.attention import attention, cosine
from multiview.evaluation.analyses.variation import variation
from multiview.evaluation.analyses.view_ranges import each_view, first_views, usage
from multiview.evaluation.costs import SINGLE_QUESTION, median_milliseconds
from multiview.evaluation.files import ANALYSES_PAGE_FILE, METRICS_FILE
from multiview.evaluation.tables import arrow_markdown
from multiview.model.layouts.base import TokenSequence

SHOWN_ROWS = 64
"""Tables with more rows, such as one row per question, are for programs only."""

TIMED_BATCHES = 64
"""As many passages are timed as fill this many batches of the longest: with few, the last batch of each length, which
is filled up with copies, would decide."""
TIMED_QUESTIONS = 100


def speed(given: AnalysisInput) -> Findings:
    """Milliseconds per passage and per question (MVR Table 4) on this process's device; reported as facts, because
    files must be reproducible.

    `encode_milliseconds_per_passage`: random passages, with the queries that they are read with, encoded in the
    arithmetic and the batches of the index, `TIMED_BATCHES` of them where it has enough passages.
    `search_milliseconds_per_question`: the `SEARCH_SECONDS` of every evaluation. `single_question_milliseconds` and
    `single_search_milliseconds`: medians over questions asked one at a time.
    """
    encoder, longest = Encoder(given.model, given.encode), given.layout.settings.passage_length
    rows = Buckets(given.encode, encoder.device, longest).shape(longest).rows
    sample = given.random_rows(TIMED_BATCHES * rows)
    passages = [indexed.sequences for indexed in given.indexed_passages.read(sample)]
    _encode(encoder, passages[:rows])  # work that is done only once is not counted
    begun = time.perf_counter()
    _encode(encoder, passages)
    encode_seconds = (time.perf_counter() - begun) / len(passages)
    facts = {
        "encode_milliseconds_per_passage": 1000 * encode_seconds,
        "search_milliseconds_per_question": 1000 * given.search_seconds,
    }
    texts = [question.question for question in given.questions[:TIMED_QUESTIONS]]
    vectors = dict(zip(texts, given.queries[:TIMED_QUESTIONS, None], strict=True))
    facts[SINGLE_QUESTION] = median_milliseconds(
        lambda text: given.ask([text], encoder.question_vector(text)[None]), texts
    )
    facts["single_search_milliseconds"] = median_milliseconds(
        lambda text: given.ask([text], vectors[text]), texts
    )
    given.events.fact(**{name: round(value, 3) for name, value in facts.items()})
    return Findings()


def _encode(encoder: Encoder, passages: Sequence[Sequence[TokenSequence]]) -> None:
    for _ in encoder.passages((sequence, None) for sequences in passages for sequence in sequences):
        pass


ANALYSES: dict[Analysis, Callable[[AnalysisInput], Findings]] = {
    "each_view": each_view,
    "first_views": first_views,
    "answer_view": answer_view,
    "attention": attention,
    "variation": variation,
    "usage": usage,
    "cosine": cosine,
    "training_answers": training_answers,
    "speed": speed,
}


def analyse(folder: Path, given: AnalysisInput) -> None:
    """Runs `settings.analyses` and writes `analyses/metrics.json`, `tables.md` and `<table>.parquet` into `folder`.

    Reports the metrics of the whole model, and as facts the times and `analyses_left_out`, name to reason. Writes no
    folder if no analysis is set.
    """
    if not given.settings.analyses:
        return
    metrics: dict[str, float] = {}
    tables: dict[str, Table] = {}
    left_out: dict[str, str] = {}
    analyses_folder = folder / names.ANALYSES
    analyses_folder.mkdir()
    for name, run in ANALYSES.items():
        if name not in given.settings.analyses:
            continue
        try:
            if not len(given.index):
                raise NotApplicable("the index has no passages")
            findings = run(given)
        except NotApplicable as reason:
            left_out[name] = str(reason)
            continue
        metrics |= findings.metrics
        tables |= findings.tables
    for name, table in tables.items():
        pq.write_table(table.rows, analyses_folder / f"{name}.parquet")
    (analyses_folder / METRICS_FILE).write_text(json.dumps(metrics, indent=1, sort_keys=True) + "\n")
    (analyses_folder / ANALYSES_PAGE_FILE).write_text(page(tables), encoding="utf-8")
    for name, value in metrics.items():
        # In MLflow, hundreds of charts of views and groups would hide the few of the whole model.
        if "/" not in name:
            given.events.metric(name, value)
    if left_out:
        given.events.fact(analyses_left_out=left_out)


def page(tables: Mapping[str, Table]) -> str:
    """Returns Markdown: each table under its name and its caption; of a long table, only its length and file."""
    parts = ["# Analyses\n"]
    for name, table in tables.items():
        file = f"{table.rows.num_rows} rows: `{name}.parquet`\n"
        rows = file if table.rows.num_rows > SHOWN_ROWS else arrow_markdown(table.rows)
        parts.append(f"## {name}\n\n{table.caption}\n\n{rows}")
    return "\n".join(parts)
