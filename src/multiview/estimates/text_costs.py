"""The costs of steps that work on texts: splitting a corpus, BM25, questions made from passages."""

from __future__ import annotations

from dataclasses import replace

from multiview.config import Config
from multiview.data.processes import MOST as PROCESSES
from multiview.estimates.cost import Cost
from multiview.estimates.workload import QUESTION_TOKENS, Scenario, made_drafts


def split(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Words / rate of a core, over as many processes as the step has; one process reads and writes all words, at a rate of
    its own. Memory by questions and by passages' ids."""
    load, rates = scenario.workload, scenario.rates
    questions, processes = load.questions + load.dev_questions, min(scenario.hardware.cores, PROCESSES)
    words = load.passages * load.words
    sentences = words / rates["split_words"] / processes
    return Cost(
        {"sentences": sentences, "reading and writing": max(0.0, words / rates["read_words"] - sentences)},
        memory=load.passages * rates["id_bytes"] + questions * rates["question_bytes"],
        disk=load.passages * load.words * rates["stored_bytes_per_word"],
    )


def split_again(config: Config, scenario: Scenario, shards: int) -> Cost:
    """The ids of the champion's passages are in memory too."""
    cost = split(config, scenario, shards)
    return replace(cost, memory=cost.memory + scenario.workload.passages * scenario.rates["id_bytes"])


FASTER_IN_THREADS = 1.7
"""How many times as fast BM25's search is in two threads, among 250,000 passages; more were not measured."""


def _bm25(questions: float, depth: int, scenario: Scenario, more_words: float = 0.0) -> Cost:
    """Passages of the corpus are indexed, each with `more_words` besides its own."""
    load, rates = scenario.workload, scenario.rates
    words = load.words + more_words
    return Cost(
        {
            "inverted index": load.passages * words / rates["bm25_words"],
            "searches": questions
            * load.passages
            / rates["bm25_scores"]
            / min(FASTER_IN_THREADS, scenario.hardware.cores),
            "answers in hits": questions * depth * load.words / rates["answer_words"],
        },
        memory=load.passages * (words * rates["bm25_bytes_per_word"] + rates["bm25_passage_bytes"])
        + questions * rates["question_bytes"],
        disk=questions * depth * rates["hit_bytes"],
    )


def bm25_negatives(config: Config, scenario: Scenario, shards: int) -> Cost:
    return _bm25(scenario.workload.questions, config.bm25.depth, scenario)


def make_questions(config: Config, scenario: Scenario, shards: int) -> Cost:
    """BM25 searches for the drafts until as many are kept as are wanted: all of them, at most."""
    drafts, load = made_drafts(config, scenario.workload.passages), scenario.workload
    cost = _bm25(drafts if config.make_questions.found_within else 0, 0, scenario)
    words = (load.questions + load.dev_questions) * QUESTION_TOKENS / scenario.rates["tokens_per_word"]
    return replace(cost, disk=words * scenario.rates["stored_bytes_per_word"])


def evaluate_bm25(config: Config, scenario: Scenario, shards: int) -> Cost:
    return _bm25(scenario.workload.dev_questions, config.evaluation.depth, scenario)


def evaluate_bm25_with_queries(config: Config, scenario: Scenario, shards: int) -> Cost:
    words = config.generation.queries * QUESTION_TOKENS / scenario.rates["tokens_per_word"]
    return _bm25(scenario.workload.dev_questions, config.evaluation.depth, scenario, words)
