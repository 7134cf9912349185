"""The costs of steps that build an index, or hand it on."""

from __future__ import annotations

from dataclasses import replace

from multiview.config import Config
from multiview.estimates.cost import Cost, model_bytes
from multiview.estimates.index_bytes import faiss_bytes, index_bytes, view_bytes
from multiview.estimates.search_costs import pass_parts
from multiview.estimates.workload import Scenario
from multiview.index.approximate import EXACT
from multiview.index.approximate.kinds import SAMPLED_PER_LIST, SMALLEST_SAMPLE, default_lists
from multiview.index.approximate.measuring import RECALL_CUTS

KMEANS_ROUNDS = 10
"""Passes of faiss' k-means over its sample."""
POINT_BYTES = 16
"""Bytes of the id of a passage in a vector database."""


def changes(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Ids and digests of all passages are compared with the index', and all texts are read, of which the changed ones are
    copied."""
    load, rates = scenario.workload, scenario.rates
    stored = load.passages * load.words * rates["stored_bytes_per_word"]
    return Cost(
        {
            "matching": load.passages / rates["matched_passages"],
            "reading texts": stored / rates["disk_bytes"],
        },
        memory=load.passages * rates["index_row_bytes"],
        disk=load.changed * stored,
    )


def index(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Views are copied; those of an approximate kind are added to a faiss index, which is held in memory, and whose recall
    is measured beside an exact search."""
    load, dim, rates, kind = scenario.workload, scenario.shape.width, scenario.rates, config.index.kind
    views, cores = load.all_views, scenario.hardware.cores
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
    if kind != EXACT:
        here = replace(scenario, hardware=replace(scenario.hardware, gpus=0))
        parts["measuring recall"] = sum(pass_parts(config.index.measured, max(RECALL_CUTS), here).values())
    return Cost(
        parts,
        memory=load.passages * rates["index_row_bytes"] + faiss_bytes(kind, views, dim),
        disk=index_bytes(kind, load.passages, views, dim),
    )


def refresh_index(config: Config, scenario: Scenario, shards: int) -> Cost:
    """The old views are copied with the new ones; only these are added to an approximate kind."""
    load = scenario.workload
    few = replace(scenario, workload=replace(load, passages=load.passages * load.changed))
    whole, added = index(config, scenario, shards), index(config, few, shards).parts
    return replace(whole, parts={**added, "copying views": whole.parts["copying views"]})


def export(config: Config, scenario: Scenario, shards: int) -> Cost:
    """`views` writes every view as float32 with its snippet; `delta` compares all passages of both indexes, and writes
    the views of those that changed; `model` and `onnx` each write a model."""
    load, rates, formats = scenario.workload, scenario.rates, config.export.formats
    written = load.passages * (("views" in formats) + load.changed * ("delta" in formats))
    compared = 2 * load.passages * ("delta" in formats)
    models = model_bytes(config, scenario) * (("model" in formats) + ("onnx" in formats))
    vectors = 4.0 * written * load.views * scenario.shape.width
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


def follow_champion(config: Config, scenario: Scenario, shards: int) -> Cost:
    """Points are made and counted here, and read back; what the database takes besides is its own."""
    load, rates = scenario.workload, scenario.rates
    return Cost(
        {"points": load.passages / rates["points"]},
        memory=load.passages * (rates["search_row_bytes"] + POINT_BYTES),
    )
