"""The `split` step: the user's files become shards of passages and two sets of questions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from importlib.metadata import version
from itertools import islice

import numpy as np
import pyarrow as pa

from multiview import names
from multiview.artifacts.record import load_record
from multiview.config import Config, JsonObject
from multiview.data import checking, passages, questions, shards
from multiview.data.answers import matching_mode
from multiview.data.chosen import choose
from multiview.data.corpus import CorpusFiles
from multiview.data.lost_questions import LostQuestions, write_lost_questions
from multiview.data.processes import further_processes, rare_collections
from multiview.data.reading import sources
from multiview.data.reading.columns import check_mapped
from multiview.data.reading.files import is_web
from multiview.data.reading.problems import Problems
from multiview.data.reading.readers import PASSAGE_COLUMNS
from multiview.data.scripts import SAMPLE, Scripts
from multiview.data.sentences import BegunSentences, KnownSentences, SentencesOf, SplitSentences, tokenizer
from multiview.data.split_report import report_split
from multiview.errors import InputError, counted
from multiview.steps.context import StepContext


def split(context: StepContext) -> None:
    """Step: read, check and cut the corpus and the questions (`settings.corpus`, `settings.questions`).

    Input `known`, which a refresh alone has: an earlier corpus; sentences of passages that it holds are not split again.
    Outputs: the shards of `passages`; `train_questions` and `dev_questions`, each a `questions.parquet`; and, of a
    refresh, `lost_questions`, the dev questions that were left out with their gold passages (of all questions, where
    dev questions are held out).

    The files are read twice, first only to check them, so that nothing is written when something is wrong (on several
    cores the first passages of Parquet files once more); SQuAD's and DPR's JSON is parsed once. Ids and questions stay
    in memory, texts do not (but a SQuAD article is parsed whole). Sentences are split on all cores. Raises InputError
    that names the file, row or setting.
    """
    _check_sources(context.settings)
    tokenizer(context.settings.corpus.language)  # fails first, where its data are missing
    with rare_collections(), further_processes() as pool:
        _split(context, pool)


def _split(context: StepContext, pool: Executor | None) -> None:
    asked = context.settings.questions
    corpus, remarks = CorpusFiles.of(context.settings), Problems()
    split_sentences = _begun_sentences(context, corpus, pool)
    found: set[str] = set()
    train = checking.read_questions(asked, asked.source, "train", report_remark=remarks, found=found)
    dev = checking.read_questions(asked, asked.dev_source, "dev", report_remark=remarks, found=found)
    check_mapped(asked.columns, found)
    scripts = Scripts()
    lengths: list[np.ndarray] = []  # of all passages in `seen.rows`

    def visit(table: pa.Table) -> None:
        scripts.add(table.column("text").slice(0, SAMPLE).to_pylist())
        lengths.append(shards.counted_lengths(table))

    seen = checking.check(
        corpus,
        [*train, *dev],
        matching_mode(context.settings),
        lambda done: context.events.progress(done, done, "passages checked"),
        visit=visit,
    )
    if line := scripts.problem(corpus.language):
        context.events.warning(line)
    train, dev = [[seen.in_passages(question) for question in found] for found in (train, dev)]
    chosen = choose(asked, train, dev, seen)
    if context.settings.corpus.keep == "gold":
        asked_of = [*chosen.train, *chosen.dev_gold]
        wanted = {id_ for q in asked_of for id_ in (*q.positive_ids, *q.negative_ids)}
    else:
        wanted = seen.rows.keys()
    shard_count = context.settings.corpus.shards
    if len(wanted) < shard_count:
        raise InputError(
            f"corpus.shards={shard_count}: the corpus has only {counted(len(wanted), 'passage')}; set fewer shards"
        )

    is_wanted = np.fromiter((id_ in wanted for id_ in seen.rows), bool, len(seen.rows))
    sizes = shards.shard_sizes(np.concatenate(lengths)[is_wanted], shard_count)
    tables = _wanted_tables(corpus, wanted, seen.further.schema)
    groups = shards.begin_groups(tables, sizes, _known_sentences(context, split_sentences))
    # Meanwhile the other processes split sentences.
    questions.write_questions(chosen.train, context.output("train_questions"))
    questions.write_questions(chosen.dev, context.output("dev_questions"))
    progress = context.events.progress
    sentences = shards.write_shards(groups, sizes, context.output("passages"), progress)
    if names.LOST_QUESTIONS in context.outputs:
        given = dev if asked.dev_source else [q for q in train if q.positive_ids]
        lost = tuple(q.qid for q in given if seen.lacks_gold(q))
        write_lost_questions(LostQuestions(len(given), lost), context.output(names.LOST_QUESTIONS))
    report_split(context.events, chosen, seen, remarks, len(wanted), sentences)


def sources_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprints of the sources for the step's key: their content, never their location."""
    asked = settings.questions
    _check_sources(settings)
    train = sources.expand_sources(asked.source, "train")
    dev = sources.expand_sources(asked.dev_source, "dev")
    corpus = [
        file
        for file in CorpusFiles.of(settings).files
        if settings.corpus.source or file not in (*train, *dev)
    ]
    return {
        "corpus": sources.fingerprints(corpus),
        "questions": sources.fingerprints(train),
        "dev_questions": sources.fingerprints(dev),
    }


def _check_sources(settings: Config) -> None:
    """Raises InputError unless the settings name questions, or a corpus that some are made from."""
    if settings.questions.source or settings.questions.dev_source:
        return
    if settings.questions.origin == "labelled":
        collection = next(filter(sources.is_collection, settings.corpus.source), "")
        raise InputError(
            "questions.source: no questions are named; name the files of the training questions"
            + (f", as in questions.source={collection}" if collection else "")
            + ", or have some made from the corpus with questions.origin=crop"
        )
    if not settings.corpus.source:
        raise InputError("corpus.source: questions are made from the corpus, and none is named")
    if settings.corpus.keep == "gold":
        raise InputError(
            "corpus.keep=gold: no questions are named that have gold passages; set corpus.keep=all"
        )


def _known_sentences(context: StepContext, otherwise: SentencesOf) -> SentencesOf:
    """Returns the sentences of the input `known`, if they were split in the same way; `otherwise` splits all others."""
    known = context.optional_input("known")
    if known is None:
        return otherwise
    _, record = load_record(known.address)
    config = record.config.get("corpus", {})
    before = (record.step_version, record.facts.get("nltk"), config.get("language"))
    language = context.settings.corpus.key_settings().get("language")
    now = (context.step_version, version("nltk"), language)
    return KnownSentences(known.path, otherwise) if before == now else otherwise


def _begun_sentences(context: StepContext, corpus: CorpusFiles, pool: Executor | None) -> SentencesOf:
    """Returns the sentence splitter, which works in the processes of `pool`.

    They begin with the first passages of Parquet files at once, while this one reads the questions, where no sentences
    are known.
    """
    section = context.settings.corpus
    split = SplitSentences(section.language, pool)
    # Other files take longer to read than sentences to split, those of the web to fetch, and articles to cut.
    quick = section.source and all(
        form == "parquet" and not is_web(file) and not corpus.cuts(file)
        for file, form in corpus.formats.items()
    )
    known = context.optional_input("known") is not None
    if pool is None or section.keep == "gold" or not quick or known:
        return split
    return BegunSentences(_first_texts(corpus), split)


def _first_texts(corpus: CorpusFiles) -> Iterator[list[str]]:
    """Yields the texts of the first tables of passages; of damaged files fewer, of which the check will tell."""
    with suppress(InputError):
        for _, table in islice(corpus.tables(), shards.AHEAD):
            yield table.column("text").to_pylist()


def _wanted_tables(corpus: CorpusFiles, wanted: Collection[str], extra: pa.Schema) -> Iterator[pa.Table]:
    """Yields the wanted passages, each once, in the order of the files, with the columns of all files."""
    schema = pa.schema([*(passages.SCHEMA.field(name) for name in PASSAGE_COLUMNS), *extra])
    left = set(wanted)
    for _, table in corpus.tables():
        mask = []
        for id_, text in zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True):
            mask.append(id_ in left and bool(text.strip()))
            if mask[-1]:
                left.discard(id_)
        table = table.filter(pa.array(mask, pa.bool_()))
        columns = [
            table.column(f.name).cast(f.type)
            if f.name in table.column_names
            else pa.nulls(table.num_rows, f.type)
            for f in schema
        ]
        if table.num_rows:
            yield pa.table(columns, schema=schema)
