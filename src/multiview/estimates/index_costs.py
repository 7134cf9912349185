"""The costs of steps that build an index or search it."""

from __future__ import annotations

import math
from dataclasses import replace

from multiview.config import Config
from multiview.estimates.cost import Cost, gpus_of, matrix_rate, model_bytes
from multiview.estimates.index_bytes import faiss_bytes, index_bytes, view_bytes
from multiview.estimates.workload import QUESTION_TOKENS, Setting
from multiview.index.approximate import EXACT
from multiview.index.approximate.kinds import FEWEST_PROBES, SAMPLED_PER_LIST, SMALLEST_SAMPLE, default_lists
from multiview.index.exact import questions_at_once

BLOCK_BYTES = 128 << 20
"""Bytes of the products that a search holds at once."""
KMEANS_ROUNDS = 10
"""Passes of faiss' k-means over its sample."""
PAGE_BYTES = 4096
"""Bytes that are read of a mapped file where one view is."""
POINT_BYTES = 16
"""Bytes of the id of a passage in a vector database."""
TIMED = 256
"""Questions that are searched for once more, alone (`multiview.evaluation.analyses.subject`)."""
LARGEST_K = 16
"""The largest k of the analysis `first_views` (`multiview.evaluation.analyses.first_views`)."""


def changes(config: Config, setting: Setting, shards: int) -> Cost:
    return Cost(memory=setting.workload.passages * setting.rates["index_row_bytes"])


def index(config: Config, setting: Setting, shards: int) -> Cost:
    """Views are copied; those of an approximate kind are added to a faiss index, which is held in memory."""
    load, dim, rates, kind = setting.workload, setting.shape.width, setting.rates, config.index.kind
    views, cores = load.all_views, setting.hardware.cores
    parts = {"copying views": view_bytes(views, dim) / rates["copied_bytes"]}
    if kind == "hnsw":
        parts["adding to the graph, one thread"] = views / rates["hnsw_views"]
    elif kind != EXACT:
        lists = config.index.lists or default_lists(round(views))
        sample = min(views, config.index.sample or max(SMALLEST_SAMPLE, SAMPLED_PER_LIST * lists))
        products, rate = 2.0 * lists * dim, rates["lists_flops"] * cores
        parts |= {
            "training lists": KMEANS_ROUNDS * sample * products / rate,
            "adding to lists": views * products / rate,
        }
    return Cost(
        parts,
        memory=load.passages * rates["index_row_bytes"] + faiss_bytes(kind, views, dim),
        disk=index_bytes(kind, load.passages, views, dim),
    )


def search_parts(
    questions: float, k: int, config: Config, setting: Setting, rankings: float = 1
) -> dict[str, float]:
    """Seconds of searching for the k best of `questions`: their encoding, the products, and reading the views.

    An exact search multiplies each question with every view, 2 · questions · views · D operations, however many
    `rankings` by some views it makes. Where the views do not fit in the pod's memory, it reads them from the disk once
    per group of questions (`questions_at_once`), and once more those that it proposes, at most a page each. An
    approximate search multiplies with the lists' centroids and with the views of the lists that it probes.
    """
    load, shape, rates = setting.workload, setting.shape, setting.rates
    views, dim = load.all_views, shape.width
    flops = shape.forward_flops(questions * QUESTION_TOKENS, QUESTION_TOKENS)
    half = config.encode.compute != "float32"
    parts = {"encoding questions": flops / matrix_rate(setting, "encode_flops", half, "gpu_encode_share")}
    if config.index.kind == EXACT:
        size = view_bytes(views, dim)
        rate = matrix_rate(setting, "search_flops", False, "gpu_search_share")
        parts["products with all views"] = 2.0 * questions * views * dim / rate
        if size >= setting.hardware.memory:
            proposed = rates["proposed_views"] * questions * k * rankings * PAGE_BYTES
            size *= math.ceil(questions / searched_together(questions, k, rankings, setting))
            size += min(proposed, size)
        parts["reading the views"] = size / rates["disk_bytes"]
        return parts
    lists = config.index.lists or default_lists(round(views))
    probes = config.index.probes or min(lists, max(FEWEST_PROBES, math.ceil(math.sqrt(lists))))
    multiplied = (
        config.index.ef_search * 64 if config.index.kind == "hnsw" else lists + views * probes / lists
    )
    rate = rates["search_flops"] * setting.hardware.cores
    parts["products with views"] = 2.0 * questions * multiplied * dim / rate
    return parts


def searched_together(questions: float, k: int, rankings: float, setting: Setting) -> float:
    """Questions that share a pass over the views."""
    device = "cuda" if setting.hardware.gpus else "cpu"
    return min(questions, questions_at_once(k, rankings, device))


def search_memory(questions: float, k: int, config: Config, setting: Setting) -> float:
    """The index' table of passages, the block of products, the questions with their hits, and a faiss index."""
    load, dim, rates = setting.workload, setting.shape.width, setting.rates
    faiss = faiss_bytes(config.index.kind, load.all_views, dim)
    table = load.passages * rates["search_row_bytes"]
    hits = questions * (rates["question_bytes"] + 4.0 * dim + 24.0 * k)
    return (
        table + BLOCK_BYTES + hits + (0.0 if config.index.on_disk else faiss) + model_bytes(config, setting)
    )


def mine(config: Config, setting: Setting, shards: int) -> Cost:
    questions, depth, rates = setting.workload.questions, config.mining.depth, setting.rates
    parts = search_parts(questions, depth, config, setting)
    if config.mining.answer_hits != "keep":
        parts["answers in hits"] = questions * depth / rates["answer_hits"]
    return Cost(
        parts,
        gpus=gpus_of(setting),
        memory=search_memory(questions, depth, config, setting),
        gpu_memory=_gpu_memory(config, setting),
        disk=questions * (config.mining.number + config.bm25.depth) * rates["hit_bytes"],
    )


def further_rankings(config: Config, views: float) -> float:
    """The rankings per question that the analyses of an evaluation ask for, besides that by all views.

    Each view alone, and the first 1 to 16; the first view alone is one of both.
    """
    asked = config.evaluation.analyses
    single = views if "each_view" in asked else 0.0
    leading = min(views - 1, LARGEST_K) if "first_views" in asked else 0.0
    return single + leading - (1 if single and leading else 0) if views > 1 else 0.0


def searched_rankings(config: Config, views: float) -> float:
    """Those of them that are searched for: where each view alone is, rankings by first views are merged from these."""
    return min(views, further_rankings(config, views))


def evaluate(config: Config, setting: Setting, shards: int) -> Cost:
    """A search, and answers in the hits of every ranking.

    An exact search makes the further rankings too, and a few questions are searched for again, alone; beside an
    approximate one they are a search of their own. Memory holds the ids of the index and of the corpus, which the texts
    are looked up by.
    """
    load, depth, rates = setting.workload, config.evaluation.depth, setting.rates
    questions, further = load.dev_questions, further_rankings(config, load.views)
    searched = searched_rankings(config, load.views)
    exactly = config.model_copy(update={"index": config.index.model_copy(update={"kind": EXACT})})
    if not searched:
        searches = [search_parts(questions, depth, config, setting)]
    elif config.index.kind == EXACT:
        searches = [
            search_parts(questions, depth, config, setting, 1 + searched),
            search_parts(min(questions, TIMED), depth, config, setting),
        ]
    else:
        searches = [
            search_parts(questions, depth, config, setting),
            search_parts(questions, depth, exactly, setting, searched),
        ]
    parts = {name: sum(each.get(name, 0.0) for each in searches) for name in {**searches[0], **searches[-1]}}
    parts["answers in hits"] = questions * depth * (1 + further) / rates["answer_hits"]
    together = searched_together(questions, depth, 1 + searched, setting)
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


def _gpu_memory(config: Config, setting: Setting) -> float:
    return model_bytes(config, setting) + 2.0 * BLOCK_BYTES if setting.hardware.gpus else 0.0


def refresh_index(config: Config, setting: Setting, shards: int) -> Cost:
    """The old views are copied with the new ones; only these are added to an approximate kind."""
    load = setting.workload
    few = replace(setting, workload=replace(load, passages=load.passages * load.changed))
    whole, added = index(config, setting, shards), index(config, few, shards).parts
    return replace(whole, parts={**added, "copying views": whole.parts["copying views"]})


def export(config: Config, setting: Setting, shards: int) -> Cost:
    """`views` writes every view as float32 with its snippet; `delta` compares all passages of both indexes, and writes
    the views of those that changed; `model` and `onnx` each write a model."""
    load, rates, formats = setting.workload, setting.rates, config.export.formats
    written = load.passages * (("views" in formats) + load.changed * ("delta" in formats))
    compared = 2 * load.passages * ("delta" in formats)
    models = model_bytes(config, setting) * (("model" in formats) + ("onnx" in formats))
    vectors = 4.0 * written * load.views * setting.shape.width
    parts = {"comparing passages": compared / rates["compared_passages"]} if compared else {}
    if written:
        parts["writing views"] = vectors / rates["exported_bytes"]
    return Cost(
        parts,
        memory=load.passages * rates["search_row_bytes"] * (2 if compared else 1)
        + compared * rates["compared_row_bytes"]
        + models,
        disk=vectors * rates["exported_share"]
        + written * load.words * rates["stored_bytes_per_word"]
        + models,
    )


def follow_champion(config: Config, setting: Setting, shards: int) -> Cost:
    """Points are made and counted here, and read back; what the database takes besides is its own."""
    load, rates = setting.workload, setting.rates
    return Cost(
        {"points": load.passages / rates["points"]},
        memory=load.passages * (rates["search_row_bytes"] + POINT_BYTES),
    )
