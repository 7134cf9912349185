"""The `split` step: the user's files become shards of passages and two sets of questions."""

import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

from multiview import names
from multiview.artifacts.scratch import scratch
from multiview.config import Config, JsonObject
from multiview.data import corpus_scan, gold_answers, passages, question_selection, questions, shards
from multiview.data.cjk import SAMPLE, Scripts
from multiview.data.corpus_scan import CorpusScan, corpus_formats
from multiview.data.processes import further_processes, rare_collections
from multiview.data.question_selection import Selection, questions_per_passage, select
from multiview.data.reading import sources
from multiview.data.reading.readers import UNKNOWN_JUDGED, read_all_questions
from multiview.data.sentences import begin_sentence_ends, splitter
from multiview.data.shards import PassageCache
from multiview.errors import InputError, Problems, Report
from multiview.steps.context import StepContext
from multiview.steps.events import Events

COUNTED = {
    "dropped_questions": question_selection.LOST_GOLD,
    "questions_without_gold": question_selection.NO_GOLD,
    "questions_with_lost_answers": gold_answers.LOST,
    "moved_answers": gold_answers.MOVED,
    "questions_without_held_answers": gold_answers.UNHELD,
    "passages_without_text": corpus_scan.NO_TEXT,
    "unknown_positives": question_selection.UNKNOWN_POSITIVES,
    "unknown_judged_questions": UNKNOWN_JUDGED,
}
"""Fact of the step to the kind of remark that it counts."""


def split(context: StepContext) -> None:
    """Step: read, check and cut the corpus and the questions (`settings.corpus`, `settings.questions`).

    Input `known`, only in a refresh: the corpus that this one supersedes.
    Outputs: the shards of `passages`; `train_questions` and `dev_questions`, each a `questions.parquet`; and, only in a
    refresh, `lost_questions`: the evaluation questions left out because their gold passages, or the answers in them,
    are gone.
    Passages wait on disk until all are checked, so that nothing is written if something is wrong; ids and questions
    stay in memory. Raises InputError that names the file, row or setting.
    """
    settings = context.settings
    check_sources(settings)
    splitter(settings.corpus.language)  # fails first, where its data are missing
    with (
        rare_collections(),
        further_processes() as pool,
        tempfile.TemporaryDirectory(dir=scratch()) as folder,
    ):
        report = Report()
        train, dev = read_all_questions(settings.questions, report)
        named = {id_ for q in (*train, *dev) for id_ in (*q.positive_ids, *q.negative_ids)}
        begin = partial(begin_sentence_ends, language=settings.corpus.language, pool=pool)
        cache = PassageCache(Path(folder), begin, named if settings.corpus.keep == "gold" else None)
        scan = CorpusScan(settings, train, dev, report)
        scripts, lengths = Scripts(), []
        for table in scan.tables():
            scripts.add(table.column("text").slice(0, SAMPLE).to_pylist())
            lengths.append(shards.counted_lengths(table))
            cache.add(table)
            context.events.progress(len(scan.rows), 0, "passages checked")
        if line := scripts.problem(settings.corpus.language):
            context.events.warning(line)
        selection = select(settings, scan, report)
        is_wanted = np.fromiter((id_ in selection.passages for id_ in scan.rows), bool, len(scan.rows))
        sizes = shards.shard_sizes(np.concatenate(lengths)[is_wanted], settings.corpus.shards)
        schema = pa.schema([*passages.SCHEMA, *scan.further.schema])
        tables = cache.tables(selection.passages, schema)
        output, progress = context.output("passages"), context.events.progress
        sentences = shards.write_shards(tables, sizes, output, progress, schema)
    questions.write_questions(selection.train, context.output("train_questions"))
    questions.write_questions(selection.dev, context.output("dev_questions"))
    if names.LOST_QUESTIONS in context.outputs:
        given = scan.dev if settings.questions.dev_source else [q for q in scan.train if q.positive_ids]
        lost = questions.LostQuestions(len(given), tuple(q.qid for q in given if scan.lacks_gold(q)))
        questions.write_lost_questions(lost, context.output(names.LOST_QUESTIONS))
    _report(context.events, selection, report.remarks, sentences, scan.further.schema)


def sources_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprints of the sources for the step's key: their content, never their location."""
    check_sources(settings)
    train = sources.expand_sources(settings.questions.source, "train")
    dev = sources.expand_sources(settings.questions.dev_source, "dev")
    asking = () if settings.corpus.source else (*train, *dev)
    corpus = [file for file in corpus_formats(settings) if file not in asking]
    return {
        "corpus": sources.fingerprints(corpus),
        "questions": sources.fingerprints(train),
        "dev_questions": sources.fingerprints(dev),
    }


def check_sources(settings: Config) -> None:
    """Raises InputError unless the settings name questions, or a corpus to make some from and keep whole."""
    if settings.questions.source or settings.questions.dev_source:
        return
    if settings.questions.origin == "labelled":
        collection = next(filter(sources.judged_uses, settings.corpus.source), "")
        raise InputError(
            "questions.source: no questions are named; name the files of the training questions"
            + (f", as in questions.source={collection}" if collection else "")
            + ", or have some made from the corpus with questions.origin=crop (for a refresh, set questions.dev_source)"
        )
    if not settings.corpus.source:
        raise InputError("corpus.source: questions are made from the corpus, and none is named")
    if settings.corpus.keep == "gold":
        raise InputError("corpus.keep=gold: no questions with gold passages are named; set corpus.keep=all")


def _report(
    events: Events, selection: Selection, remarks: Problems, sentences: int, further: pa.Schema
) -> None:
    """Reports what was left out or is worth a remark as warnings, and the counts of the step as facts and metrics."""
    for kind, number in remarks.counts.items():
        events.warning(f"{kind}: {number:,}, the first: {remarks.first[kind]}")
    events.fact(nltk=version("nltk"), columns={field.name: str(field.type) for field in further})
    events.figures(
        passages=len(selection.passages),
        train_questions=len(selection.train),
        dev_questions=len(selection.dev),
        **{name: remarks.counts.get(kind, 0) for name, kind in COUNTED.items()},
        avq=questions_per_passage(selection.train),
        sentences_per_passage=sentences / len(selection.passages),
    )
