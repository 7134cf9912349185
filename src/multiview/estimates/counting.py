"""The amounts of a pipeline's own data: from its split where the store has it, else by reading its sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from multiview import names
from multiview.artifacts.record import Record
from multiview.artifacts.store import Store
from multiview.config import Config
from multiview.data.inspection import inspect
from multiview.data.questions import Question
from multiview.errors import InputError
from multiview.estimates.estimate import base_config, most_views
from multiview.estimates.rates import Rates
from multiview.estimates.workload import Workload, made_drafts, views_of
from multiview.plans.request import Request
from multiview.steps.work import Work


def count(request: Request, store: Store, rates: Rates) -> Workload:
    """The amounts of a request. Raises InputError for sources that cannot be read."""
    config = base_config(request.overrides)
    found = _split(request, store)
    workload = of_split(found, config, rates) if found else of_sources(config)
    return replace(workload, views=most_views(request.plan.name, request.overrides))


def of_split(record: Record, config: Config, rates: Rates) -> Workload:
    """The amounts in the record of a split's passages; their words by the size of its files."""
    passages = record.facts["passages"]
    words = stored_words(record, rates)
    questions, dev = _used(config, passages, record.facts["train_questions"], record.facts["dev_questions"])
    return Workload(passages, views_of(config), words, questions, dev)


def stored_words(record: Record, rates: Rates) -> float:
    """Words per passage, by the size of the files of a split's passages."""
    return (
        sum(file.bytes for file in record.files) / record.facts["passages"] / rates["stored_bytes_per_word"]
    )


def of_sources(config: Config) -> Workload:
    """The amounts in the sources that the settings name, which are read once."""
    seen = inspect(config, lambda done: None)
    if not seen.passages:
        problem = next(iter(seen.problems.counts), "corpus.source and questions.source name no passages")
        raise InputError(f"the sources cannot be counted: {problem}; `multiview inspect` says more")
    settings = config.questions
    train, dev = len(seen.questions["train"]), len(seen.questions["dev"])
    asked_about, tested = _gold(seen.questions["train"]), _gold(seen.questions["dev"])
    if settings.one_per_passage and settings.origin == "labelled":
        train = asked_about
    if not settings.dev_source:
        dev = round(settings.dev_share * train)
        train -= dev
    train, dev = _used(config, seen.passages, train, dev)
    train = min(train, settings.limit or train)
    passages = seen.passages
    if config.corpus.keep == "gold":
        passages = min(passages, min(asked_about, train) + tested)
    return Workload(passages, views_of(config), seen.words.mean, train, min(dev, settings.dev_limit or dev))


def _gold(questions: Iterable[Question]) -> int:
    """The number of gold passages; of a question that has several, the first counts."""
    return len({question.positive_ids[0] for question in questions if question.positive_ids})


def _used(config: Config, passages: float, train: float, dev: float) -> tuple[float, float]:
    """The training and dev questions that are used, of labelled ones: made ones take their place, as many as are drafted."""
    asked = config.questions
    if config.questions.origin == "labelled":
        return train, dev
    drafts = made_drafts(config, passages)
    held_out = round(asked.dev_share * drafts)
    made = drafts - held_out
    if asked.one_per_passage:
        made = min(made, passages * config.make_questions.share)
    labelled = asked.source or asked.dev_source
    return (
        min(made, asked.limit or made),
        dev if labelled else min(held_out, asked.dev_limit or held_out),
    )


def _split(request: Request, store: Store) -> Record | None:
    """The record of the passages that the plan's split has made before."""
    for node in request.plan.nodes.values():
        if node.step.name == "split":
            return Work.resolve(node.step, node.config, {}, store).find(store).get(names.PASSAGES)
    return None
