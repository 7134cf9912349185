"""The costs of steps that search an index."""

from __future__ import annotations

import math

from multiview.config import Analysis, Config
from multiview.estimates.cost import Cost, gpus_of, matrix_rate, model_bytes
from multiview.estimates.index_bytes import faiss_bytes, view_bytes
from multiview.estimates.workload import QUESTION_TOKENS, Setting
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


def pass_parts(questions: float, k: int, setting: Setting, rankings: float = 1) -> dict[str, float]:
    """Seconds of an exact search for the k best of `questions`: the products, and reading the views.

    Each question is multiplied with every view, 2 · questions · views · D operations, however many `rankings` by some
    views are made. Where the views do not fit in the pod's memory, they are read from the disk once per group of
    questions (`questions_at_once`).
    """
    rates, dim = setting.rates, setting.shape.width
    size = view_bytes(setting.workload.all_views, dim)
    rate = matrix_rate(setting, "search")
    products = 2.0 * questions * setting.workload.all_views * dim / rate
    if not _fits(setting):
        size *= math.ceil(questions / searched_together(questions, k, rankings, setting)) if questions else 0
    return {"products with all views": products, READING: size / rates["disk_bytes"]}


def _fits(setting: Setting) -> bool:
    """Whether the views fit in a pod's memory, so that they are read once."""
    return view_bytes(setting.workload.all_views, setting.shape.width) < setting.hardware.memory


def search_parts(
    questions: float, k: int, config: Config, setting: Setting, rankings: float = 1
) -> dict[str, float]:
    """Seconds of a search for the k best of `questions`, which are encoded.

    An approximate search multiplies with the lists' centroids and with the views of the lists that it probes.
    """
    if config.index.kind == EXACT:
        return pass_parts(questions, k, setting, rankings)
    views, dim = setting.workload.all_views, setting.shape.width
    lists = config.index.lists or default_lists(round(views))
    probes = config.index.probes or min(lists, max(FEWEST_PROBES, math.ceil(math.sqrt(lists))))
    multiplied = (
        config.index.ef_search * 64 if config.index.kind == "hnsw" else lists + views * probes / lists
    )
    rate = setting.rates["search_flops"] * setting.hardware.cores
    return {"products with views": 2.0 * questions * multiplied * dim / rate}


def encoding_part(questions: float, config: Config, setting: Setting) -> dict[str, float]:
    """Seconds of the questions' encoding."""
    flops = setting.shape.forward_flops(questions * QUESTION_TOKENS, QUESTION_TOKENS)
    half = config.encode.compute != "float32"
    return {"encoding questions": flops / matrix_rate(setting, "encode", half)}


def searched_together(questions: float, k: int, rankings: float, setting: Setting) -> float:
    """Questions that share a pass over the views."""
    return min(questions, questions_at_once(k, rankings, "cuda" if setting.hardware.gpus else "cpu"))


def search_memory(questions: float, k: int, config: Config, setting: Setting) -> float:
    """The index' table of passages, the block of products, the questions with their hits, what a pass proposes, and a
    faiss index."""
    load, dim, rates = setting.workload, setting.shape.width, setting.rates
    faiss = faiss_bytes(config.index.kind, load.all_views, dim)
    table = load.passages * rates["search_row_bytes"]
    hits = questions * (rates["question_bytes"] + 4.0 * dim + 24.0 * k)
    proposed = searched_together(questions, k, 1, setting) * k * PROPOSED_BYTES
    held = table + BLOCK_BYTES + hits + proposed + model_bytes(config, setting)
    return held + (0.0 if config.index.on_disk else faiss)


def mine(config: Config, setting: Setting, shards: int) -> Cost:
    questions, depth, rates = setting.workload.questions, config.mining.depth, setting.rates
    parts = encoding_part(questions, config, setting) | search_parts(questions, depth, config, setting)
    if config.mining.answer_hits != "keep":
        parts["answers in hits"] = questions * depth * setting.workload.words / rates["answer_words"]
    return Cost(
        parts,
        gpus=gpus_of(setting),
        memory=search_memory(questions, depth, config, setting)
        + questions * depth * rates["mined_hit_bytes"],
        gpu_memory=_gpu_memory(config, setting),
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


def encoded_passages(config: Config, setting: Setting) -> float:
    """The passages that the analyses of an evaluation encode, at most: those of `speed`, a few, are not counted.

    Padding views are of empty snippets, and so are made by layouts that mark snippets.
    """
    asked, load = config.evaluation, setting.workload
    if load.views <= 1:
        return 0.0
    sampled: dict[Analysis, float] = {
        "attention": asked.divergence_passages,
        "variation": min(asked.variation_pairs, load.dev_questions),
    }
    if architecture(config.model.architecture).marks_snippets:
        sampled["padding"] = POOL * asked.depth * min(asked.padding_questions, load.dev_questions)
    return sum(min(load.passages, count) for name, count in sampled.items() if name in asked.analyses)


def evaluate(config: Config, setting: Setting, shards: int) -> Cost:
    """A search, one of a few questions whose time is measured, answers in the hits of every ranking, and encoding in
    float32 for some analyses.

    An exact search makes the further rankings too. Beside an approximate one, these are an exact search of their own,
    and so is that of a few questions by which its recall is measured. Memory holds the ids of the index and of the
    corpus, which the texts are looked up by.
    """
    load, depth, rates = setting.workload, config.evaluation.depth, setting.rates
    questions, further = load.dev_questions, further_rankings(config, load.views)
    searched, exact = searched_rankings(config, load.views), config.index.kind == EXACT
    rankings = searched + 1 if exact else searched
    searches = [
        search_parts(questions, depth, config, setting, rankings if exact else 1),
        search_parts(min(questions, TIMED), depth, config, setting),
    ]
    if not exact:
        searches.append(pass_parts(min(questions, config.index.measured), depth, setting))
        searches += [pass_parts(questions, depth, setting, rankings)] if rankings else []
    parts = encoding_part(questions, config, setting) | _in_all(searches, setting)
    parts["answers in hits"] = questions * depth * (1 + further) * load.words / rates["answer_words"]
    tokens = load.passage_tokens(config, rates)
    sequences = encoded_passages(config, setting) * load.sequences(config)
    parts["encoding for analyses"] = setting.shape.forward_flops(sequences * tokens, tokens) / matrix_rate(
        setting, "encode"
    )
    together = searched_together(questions, depth, rankings, setting)
    ranked = depth * together * further * rates["ranked_hit_bytes"]
    judged = depth * questions * (1 + further) * rates["judged_hit_bytes"]
    return Cost(
        parts,
        gpus=gpus_of(setting),
        memory=search_memory(questions, depth, config, setting)
        + load.passages * rates["looked_up_row_bytes"]
        + ranked
        + judged,
        gpu_memory=_gpu_memory(config, setting),
        disk=questions * depth * rates["hit_bytes"],
    )


def _in_all(searches: list[dict[str, float]], setting: Setting) -> dict[str, float]:
    """The sums of the parts of some searches, which read the views once where they fit in memory."""
    names = dict.fromkeys(name for parts in searches for name in parts)
    sums = {name: sum(parts.get(name, 0.0) for parts in searches) for name in names}
    if READING in sums and _fits(setting):
        sums[READING] = max(parts.get(READING, 0.0) for parts in searches)
    return sums


def _gpu_memory(config: Config, setting: Setting) -> float:
    return model_bytes(config, setting) + 2.0 * BLOCK_BYTES if setting.hardware.gpus else 0.0
