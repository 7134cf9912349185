"""The costs of steps that search an index."""

from __future__ import annotations

import math

from multiview.config import Analysis, Config
from multiview.estimates.cost import Cost, gpus_of, matrix_rate, model_bytes
from multiview.estimates.index_bytes import faiss_bytes, view_bytes
from multiview.estimates.workload import QUESTION_TOKENS, Scenario
from multiview.evaluation.analyses.first_views import LARGEST_K
from multiview.evaluation.analyses.padding import POOL
from multiview.evaluation.latency import TIMED
from multiview.index.approximate import EXACT
from multiview.index.approximate.kinds import FEWEST_PROBES, default_lists
from multiview.index.exact import questions_at_once
from multiview.model.layouts import architecture

BLOCK_BYTES = 128 << 20
"""Bytes of the products that a search holds at once."""
PROPOSED_BYTES = 72
"""Bytes of what a pass holds per hit: two proposed views of 36 bytes (`multiview.index.proposals`)."""
READING = "reading the views"


def pass_parts(questions: float, k: int, scenario: Scenario, rankings: float = 1) -> dict[str, float]:
    """Seconds of an exact search for the k best of `questions`: the products, and reading the views.

    Each question is multiplied with every view, 2 · questions · views · D operations, however many `rankings` by some
    views are made. Where the views do not fit in the pod's memory, they are read from the disk once per group of
    questions (`questions_at_once`).
    """
    rates, dim = scenario.rates, scenario.shape.width
    size = view_bytes(scenario.workload.all_views, dim)
    rate = matrix_rate(scenario, "search")
    products = 2.0 * questions * scenario.workload.all_views * dim / rate
    if not _fits(scenario):
        size *= math.ceil(questions / searched_together(questions, k, rankings, scenario)) if questions else 0
    return {"products with all views": products, READING: size / rates["disk_bytes"]}


def _fits(scenario: Scenario) -> bool:
    """Whether the views fit in a pod's memory, so that they are read once."""
    return view_bytes(scenario.workload.all_views, scenario.shape.width) < scenario.hardware.memory


def search_parts(
    questions: float, k: int, config: Config, scenario: Scenario, rankings: float = 1
) -> dict[str, float]:
    """Seconds of a search for the k best of `questions`, which are encoded.

    An approximate search multiplies with the lists' centroids and with the views of the lists that it probes.
    """
    if config.index.kind == EXACT:
        return pass_parts(questions, k, scenario, rankings)
    views, dim = scenario.workload.all_views, scenario.shape.width
    lists = config.index.lists or default_lists(round(views))
    probes = config.index.probes or min(lists, max(FEWEST_PROBES, math.ceil(math.sqrt(lists))))
    multiplied = (
        config.index.ef_search * 64 if config.index.kind == "hnsw" else lists + views * probes / lists
    )
    rate = scenario.rates["search_flops"] * scenario.hardware.cores
    return {"products with views": 2.0 * questions * multiplied * dim / rate}


def encoding_part(questions: float, config: Config, scenario: Scenario) -> dict[str, float]:
    """Seconds of the questions' encoding."""
    flops = scenario.shape.forward_flops(questions * QUESTION_TOKENS, QUESTION_TOKENS)
    half = config.encode.compute != "float32"
    return {"encoding questions": flops / matrix_rate(scenario, "encode", half)}


def searched_together(questions: float, k: int, rankings: float, scenario: Scenario) -> float:
    """Questions that share a pass over the views."""
    return min(questions, questions_at_once(k, rankings, "cuda" if scenario.hardware.gpus else "cpu"))


def search_memory(questions: float, k: int, config: Config, scenario: Scenario) -> float:
    """The index' table of passages, the block of products, the questions with their hits, what a pass proposes, and a
    faiss index."""
    load, dim, rates = scenario.workload, scenario.shape.width, scenario.rates
    faiss = faiss_bytes(config.index.kind, load.all_views, dim)
    table = load.passages * rates["search_row_bytes"]
    hits = questions * (rates["question_bytes"] + 4.0 * dim + 24.0 * k)
    proposed = searched_together(questions, k, 1, scenario) * k * PROPOSED_BYTES
    held = table + BLOCK_BYTES + hits + proposed + model_bytes(config, scenario)
    return held + (0.0 if config.index.on_disk else faiss)


def mine(config: Config, scenario: Scenario, shards: int) -> Cost:
    questions, depth, rates = scenario.workload.questions, config.mining.depth, scenario.rates
    parts = encoding_part(questions, config, scenario) | search_parts(questions, depth, config, scenario)
    if config.mining.answer_hits != "keep":
        parts["answers in hits"] = questions * depth * scenario.workload.words / rates["answer_words"]
    return Cost(
        parts,
        gpus=gpus_of(scenario),
        memory=search_memory(questions, depth, config, scenario)
        + questions * depth * rates["mined_hit_bytes"],
        gpu_memory=_gpu_memory(config, scenario),
        disk=questions * (config.mining.number + config.bm25.depth) * rates["hit_bytes"],
    )


def further_rankings(config: Config, views: float) -> float:
    """The number of rankings per question that the analyses of an evaluation ask for, besides that by all views.

    Each view alone, and the first 1 to 16; the first view alone is one of both.
    """
    asked = config.evaluation.analyses
    single = views if "each_view" in asked else 0.0
    leading = min(views - 1, LARGEST_K) if "first_views" in asked else 0.0
    return single + leading - (1 if single and leading else 0) if views > 1 else 0.0


def searched_rankings(config: Config, views: float) -> float:
    """The number of further rankings that are searched for: those by first views are merged from those by each alone."""
    return min(views, further_rankings(config, views))


def encoded_passages(config: Config, scenario: Scenario) -> float:
    """The passages that the analyses of an evaluation encode, at most: those of `speed`, a few, are not counted.

    Padding views are of empty snippets, and so are made by layouts that mark snippets.
    """
    asked, load = config.evaluation, scenario.workload
    if load.views <= 1:
        return 0.0
    sampled: dict[Analysis, float] = {
        "attention": asked.divergence_passages,
        "variation": min(asked.variation_pairs, load.dev_questions),
    }
    if architecture(config.model.architecture).marks_snippets:
        sampled["padding"] = POOL * asked.depth * min(asked.padding_questions, load.dev_questions)
    return sum(min(load.passages, count) for name, count in sampled.items() if name in asked.analyses)


def evaluate(config: Config, scenario: Scenario, shards: int) -> Cost:
    """A search, one of a few questions whose time is measured, answers in the hits of every ranking, and encoding in
    float32 for some analyses.

    An exact search makes the further rankings too. Beside an approximate one, these are an exact search of their own,
    and so is that of a few questions by which its recall is measured. Memory holds the ids of the index and of the
    corpus, which the texts are looked up by.
    """
    load, depth, rates = scenario.workload, config.evaluation.depth, scenario.rates
    questions, further = load.dev_questions, further_rankings(config, load.views)
    searched, exact = searched_rankings(config, load.views), config.index.kind == EXACT
    rankings = searched + 1 if exact else searched
    searches = [
        search_parts(questions, depth, config, scenario, rankings if exact else 1),
        search_parts(min(questions, TIMED), depth, config, scenario),
    ]
    if not exact:
        searches.append(pass_parts(min(questions, config.index.measured), depth, scenario))
        searches += [pass_parts(questions, depth, scenario, rankings)] if rankings else []
    parts = encoding_part(questions, config, scenario) | _in_all(searches, scenario)
    parts["answers in hits"] = questions * depth * (1 + further) * load.words / rates["answer_words"]
    tokens = load.passage_tokens(config, rates)
    sequences = encoded_passages(config, scenario) * load.sequences(config)
    parts["encoding for analyses"] = scenario.shape.forward_flops(sequences * tokens, tokens) / matrix_rate(
        scenario, "encode"
    )
    together = searched_together(questions, depth, rankings, scenario)
    ranked = depth * together * further * rates["ranked_hit_bytes"]
    judged = depth * questions * (1 + further) * rates["judged_hit_bytes"]
    return Cost(
        parts,
        gpus=gpus_of(scenario),
        memory=search_memory(questions, depth, config, scenario)
        + load.passages * rates["looked_up_row_bytes"]
        + ranked
        + judged,
        gpu_memory=_gpu_memory(config, scenario),
        disk=questions * depth * rates["hit_bytes"],
    )


def _in_all(searches: list[dict[str, float]], scenario: Scenario) -> dict[str, float]:
    """The sums of the parts of some searches, which read the views once where they fit in memory."""
    names = dict.fromkeys(name for parts in searches for name in parts)
    sums = {name: sum(parts.get(name, 0.0) for parts in searches) for name in names}
    if READING in sums and _fits(scenario):
        sums[READING] = max(parts.get(READING, 0.0) for parts in searches)
    return sums


def _gpu_memory(config: Config, scenario: Scenario) -> float:
    return model_bytes(config, scenario) + 2.0 * BLOCK_BYTES if scenario.hardware.gpus else 0.0
