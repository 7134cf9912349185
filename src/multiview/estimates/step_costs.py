"""The cost of each step: a formula per kind of work, over the amounts of `workload` and the table of rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from multiview.config import Config
from multiview.config.section import MOST_WORKERS
from multiview.data.processes import MOST as PROCESSES
from multiview.estimates.index_bytes import ROW_BYTES, faiss_bytes, index_bytes, view_bytes
from multiview.estimates.workload import QUESTION_TOKENS, Setting, made_drafts
from multiview.index.approximate import EXACT
from multiview.index.approximate.kinds import FEWEST_PROBES, SAMPLED_PER_LIST, SMALLEST_SAMPLE, default_lists
from multiview.index.exact import GPU_QUESTIONS_AT_ONCE, QUESTIONS_AT_ONCE

BLOCK_BYTES = 128 << 20
"""Bytes of the products that a search holds at once."""
KMEANS_ROUNDS = 10
"""Passes of faiss' k-means over its sample."""
WITHOUT_TORCH = (
    "split",
    "split-again",
    "crop-questions",
    "make-questions",
    "bm25-negatives",
    "evaluate-bm25",
    "evaluate-bm25-with-queries",
)
"""Steps whose process imports no torch."""
ANOTHER_PASS = ("first_views", "each_view")
"""Analyses of an evaluation that search all views once more, together."""


@dataclass(frozen=True)
class Cost:
    """The cost of one step."""

    parts: dict[str, float] = field(default_factory=dict)
    """Seconds of each part of one task, one after another."""
    tasks: int = 1
    """Tasks of the same size: the shards of a step that runs by shard."""
    at_once: int = 1
    """Tasks that run at the same time."""
    gpus: int = 0
    """GPUs of one task."""
    memory: float = 0.0
    """Bytes of main memory of one task, at most, beside files that are mapped."""
    gpu_memory: float = 0.0
    """Bytes on each GPU, at most."""
    disk: float = 0.0
    """Bytes of the outputs of all tasks."""

    @property
    def seconds(self) -> float:
        """Wall time of all tasks."""
        return sum(self.parts.values()) * math.ceil(self.tasks / self.at_once)

    @property
    def gpu_seconds(self) -> float:
        return sum(self.parts.values()) * self.tasks * self.gpus

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda part: self.parts[part], default="")

    def times(self, factor: float) -> Cost:
        """The cost with `factor` times the seconds."""
        return replace(self, parts={name: seconds * factor for name, seconds in self.parts.items()})


def cost_of(step: str, config: Config, setting: Setting, shards: int = 1) -> Cost:
    """The cost of a step of the table of steps, with `shards` tasks if it runs by shard.

    A step whose work is small beside the others' costs its start alone.
    """
    cost = COSTS.get(step, lambda config, setting, shards: Cost())(config, setting, shards)
    rates = setting.rates
    return replace(
        cost,
        parts={"start": rates["start_seconds"], **cost.parts},
        memory=cost.memory + rates["plain_process_bytes" if step in WITHOUT_TORCH else "process_bytes"],
    )


def encoders(config: Config) -> int:
    return 1 if config.model.tied else 2


def _matrix_rate(setting: Setting, rate: str, half: bool, share: str, gpus: int = 1) -> float:
    """Operations per second of `gpus` GPUs, else of all cores of a pod by the measured `rate` of one."""
    if not setting.hardware.gpus:
        return setting.rates[rate] * setting.hardware.cores
    device = setting.rates.device(setting.hardware.gpu)
    return gpus * setting.rates[share] * (device.half_flops if half else device.float32_flops)


def _gpus(setting: Setting, most: int = 1) -> int:
    return min(setting.hardware.gpus, most)


def _split(config: Config, setting: Setting, shards: int) -> Cost:
    """passages / rate of a core, on as many as the step has processes; memory by questions and by passages' ids."""
    load, rates = setting.workload, setting.rates
    questions = load.questions + load.dev_questions
    return Cost(
        {"sentences": load.passages / rates["split_passages"] / min(setting.hardware.cores, PROCESSES)},
        memory=load.passages * rates["id_bytes"] + questions * rates["question_bytes"],
        disk=load.passages * load.words * rates["stored_bytes_per_word"],
    )


def _split_again(config: Config, setting: Setting, shards: int) -> Cost:
    """The ids of the champion's passages are in memory too."""
    cost = _split(config, setting, shards)
    return replace(cost, memory=cost.memory + setting.workload.passages * setting.rates["id_bytes"])


def _changes(config: Config, setting: Setting, shards: int) -> Cost:
    return Cost(memory=setting.workload.passages * setting.rates["index_row_bytes"])


def _bm25(questions: float, depth: int, setting: Setting, more_words: float = 0.0) -> Cost:
    """Passages of the corpus are indexed, each with `more_words` besides its own."""
    load, rates = setting.workload, setting.rates
    words = load.words + more_words
    return Cost(
        {
            "inverted index": load.passages * words / load.words / rates["bm25_passages"],
            "searches": questions * load.passages / rates["bm25_scores"],
            "answers in hits": questions * depth / rates["answer_hits"],
        },
        memory=load.passages * (words * rates["bm25_bytes_per_word"] + rates["bm25_passage_bytes"])
        + questions * rates["question_bytes"],
        disk=questions * depth * rates["hit_bytes"],
    )


def _bm25_negatives(config: Config, setting: Setting, shards: int) -> Cost:
    return _bm25(setting.workload.questions, config.bm25.depth, setting)


def _make_questions(config: Config, setting: Setting, shards: int) -> Cost:
    """BM25 searches for the drafts until as many are kept as are wanted: all of them, at most."""
    drafts, load = made_drafts(config, setting.workload.passages), setting.workload
    cost = _bm25(drafts if config.make_questions.found_within else 0, 0, setting)
    words = (load.questions + load.dev_questions) * QUESTION_TOKENS / setting.rates["tokens_per_word"]
    return replace(cost, disk=words * setting.rates["stored_bytes_per_word"])


def _evaluate_bm25(config: Config, setting: Setting, shards: int) -> Cost:
    return _bm25(setting.workload.dev_questions, config.evaluation.depth, setting)


def _evaluate_bm25_with_queries(config: Config, setting: Setting, shards: int) -> Cost:
    words = config.generation.queries * QUESTION_TOKENS / setting.rates["tokens_per_word"]
    return _bm25(setting.workload.dev_questions, config.evaluation.depth, setting, words)


def model_bytes(config: Config, setting: Setting) -> float:
    """Four bytes per parameter of each encoder."""
    return 4.0 * setting.shape.parameters * encoders(config)


def _initial_model(config: Config, setting: Setting, shards: int) -> Cost:
    size = model_bytes(config, setting)
    return Cost(memory=size, disk=size)


def activation_bytes(config: Config, setting: Setting, sequences: float, tokens: float) -> float:
    """Bytes that the backward pass needs of `sequences` sequences of `tokens` tokens.

    b s L (34 D + 5 a s) in half precision, twice as many in float32, with a = D / 64 heads (Korthikanti et al., 2022); the
    second term falls away with a fused kernel for attention, as without dropout of attention. With gradient checkpointing
    2 D per layer remain, beside one layer whole.
    """
    train, shape = config.train, setting.shape
    dropout = train.dropout if train.attention_dropout is None else train.attention_dropout
    heads = max(1, shape.width // 64) if shape.width % 64 == 0 else 12
    each = 34 * shape.width + (5 * heads * tokens if dropout else 0)
    layers = each + 2 * shape.width * shape.layers if train.gradient_checkpointing else each * shape.layers
    return sequences * tokens * layers * (2 if train.precision == "float32" else 1)


def _train(config: Config, setting: Setting, shards: int) -> Cost:
    """3 · forward operations, once more with `train.chunk` or gradient checkpointing; weights, gradients and both moments
    of AdamW in float32, beside the activations. A validation is a forward pass of its pool on one GPU."""
    load, train, shape, rates = setting.workload, config.train, setting.shape, setting.rates
    gpus, tokens = _gpus(setting, setting.hardware.gpus), load.passage_tokens(config, rates)
    passages = load.batch(config) * (1 + train.negatives)
    flops = shape.forward_flops(passages * tokens, tokens)
    flops += shape.forward_flops(load.batch(config) * QUESTION_TOKENS, QUESTION_TOKENS)
    again = 1 if train.chunk or train.gradient_checkpointing else 0
    rate = _matrix_rate(setting, "train_flops", train.precision != "float32", "gpu_train_share", gpus)
    sequences = min(train.chunk or math.inf, passages / max(1, gpus))
    state = 16.0 * shape.parameters * encoders(config) + activation_bytes(config, setting, sequences, tokens)
    parts = {"forward and backward": load.steps(config) * (3 + again) * flops / rate}
    if train.validate_steps:
        pool = min(train.validation_passages, load.passages)
        validations = math.ceil(load.steps(config) / train.validate_steps) + 1
        one_gpu = _matrix_rate(setting, "encode_flops", train.precision != "float32", "gpu_encode_share")
        parts["validation"] = validations * shape.forward_flops(pool * tokens, tokens) / one_gpu
    return Cost(
        parts,
        gpus=gpus,
        memory=model_bytes(config, setting) if gpus else state,
        gpu_memory=state if gpus else 0.0,
        disk=model_bytes(config, setting),
    )


def processes_ahead(config: Config, setting: Setting) -> int:
    """The processes that tokenise ahead of a GPU; a pod of `encode` has one (see `multiview.model.devices.workers`)."""
    asked = config.encode.workers
    return max(0, min(MOST_WORKERS, setting.hardware.cores - 1)) if asked is None else asked


def _encode(config: Config, setting: Setting, shards: int) -> Cost:
    """Tokenising, then forward passes; each shard is a task.

    On a GPU other processes tokenise ahead, so tokenising takes only the time by which it exceeds the forward passes.
    """
    load, shape, rates = setting.workload, setting.shape, setting.rates
    tokens = load.passage_tokens(config, rates)
    sequences = load.passages * load.sequences(config)
    half = config.encode.compute != "float32"
    forward = shape.forward_flops(sequences * tokens, tokens)
    weights = shape.parameters * (2.0 if config.encode.compute == "bfloat16" else 4.0)
    batch = 4.0 * config.encode.batch_tokens * (shape.inner + 6 * shape.width)
    tokenised = sequences / rates["tokenised_sequences"] / shards
    computed = forward / _matrix_rate(setting, "encode_flops", half, "gpu_encode_share") / shards
    if setting.hardware.gpus and (ahead := processes_ahead(config, setting)):
        tokenised = max(0.0, tokenised / ahead - computed)
    return Cost(
        {"tokenising": tokenised, "forward passes": computed},
        tasks=shards,
        at_once=min(shards, setting.hardware.at_once or max(1, setting.hardware.gpus)),
        gpus=_gpus(setting),
        memory=weights + (0 if setting.hardware.gpus else batch),
        gpu_memory=weights + batch if setting.hardware.gpus else 0.0,
        disk=view_bytes(load.all_views, shape.width) + ROW_BYTES * load.passages,
    )


def _index(config: Config, setting: Setting, shards: int) -> Cost:
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


def search_parts(questions: float, passes: int, config: Config, setting: Setting) -> dict[str, float]:
    """Seconds of searching for `questions`: their encoding, the products, and reading the views.

    An exact search multiplies each question with every view, 2 · questions · views · D operations a pass, and reads the
    views from the disk once per group of questions (`QUESTIONS_AT_ONCE`, on a GPU more) where they do not fit in the pod's memory. An approximate
    one multiplies with the lists' centroids and with the views of the lists that it probes.
    """
    load, shape, rates = setting.workload, setting.shape, setting.rates
    views, dim = load.all_views, shape.width
    flops = shape.forward_flops(questions * QUESTION_TOKENS, QUESTION_TOKENS)
    half = config.encode.compute != "float32"
    parts = {"encoding questions": flops / _matrix_rate(setting, "encode_flops", half, "gpu_encode_share")}
    if config.index.kind == EXACT:
        size = view_bytes(views, dim)
        together = GPU_QUESTIONS_AT_ONCE if setting.hardware.gpus else QUESTIONS_AT_ONCE
        read = 1 if size < setting.hardware.memory else math.ceil(questions / together)
        rate = _matrix_rate(setting, "search_flops", False, "gpu_search_share")
        parts["products with all views"] = passes * 2.0 * questions * views * dim / rate
        parts["reading the views"] = passes * read * size / rates["disk_bytes"]
        return parts
    lists = config.index.lists or default_lists(round(views))
    probes = config.index.probes or min(lists, max(FEWEST_PROBES, math.ceil(math.sqrt(lists))))
    multiplied = (
        config.index.ef_search * 64 if config.index.kind == "hnsw" else lists + views * probes / lists
    )
    rate = rates["search_flops"] * setting.hardware.cores
    parts["products with views"] = 2.0 * questions * multiplied * dim / rate
    return parts


def search_memory(questions: float, k: int, config: Config, setting: Setting) -> float:
    """The index' table of passages, the block of products, the questions with their hits, and a faiss index."""
    load, dim, rates = setting.workload, setting.shape.width, setting.rates
    faiss = faiss_bytes(config.index.kind, load.all_views, dim)
    table = load.passages * rates["search_row_bytes"]
    hits = questions * (rates["question_bytes"] + 4.0 * dim + 24.0 * k)
    return (
        table + BLOCK_BYTES + hits + (0.0 if config.index.on_disk else faiss) + model_bytes(config, setting)
    )


def _mine(config: Config, setting: Setting, shards: int) -> Cost:
    questions, depth, rates = setting.workload.questions, config.mining.depth, setting.rates
    parts = search_parts(questions, 1, config, setting)
    if config.mining.answer_hits != "keep":
        parts["answers in hits"] = questions * depth / rates["answer_hits"]
    return Cost(
        parts,
        gpus=_gpus(setting),
        memory=search_memory(questions, depth, config, setting),
        gpu_memory=_search_gpu_memory(config, setting),
        disk=questions * (config.mining.number + config.bm25.depth) * rates["hit_bytes"],
    )


def _teach(config: Config, setting: Setting, shards: int) -> Cost:
    """Forward passes of a cross-encoder, which is taken to be as large as the base model, over every pair."""
    load, shape, rates = setting.workload, setting.shape, setting.rates
    pairs = load.questions * (1 + max(config.bm25.depth, config.mining.number))
    tokens = load.passage_tokens(config, rates) + QUESTION_TOKENS
    half = config.encode.compute != "float32"
    rate = _matrix_rate(setting, "encode_flops", half, "gpu_encode_share")
    return Cost(
        {"forward passes": shape.forward_flops(pairs * tokens, tokens) / rate},
        gpus=_gpus(setting),
        memory=4.0 * shape.parameters,
        gpu_memory=4.0 * shape.parameters if setting.hardware.gpus else 0.0,
        disk=pairs * rates["hit_bytes"],
    )


def _evaluate(config: Config, setting: Setting, shards: int) -> Cost:
    questions, depth, rates = setting.workload.dev_questions, config.evaluation.depth, setting.rates
    passes = 1 + any(each in config.evaluation.analyses for each in ANOTHER_PASS)
    parts = search_parts(questions, passes, config, setting)
    parts["answers in hits"] = questions * depth / rates["answer_hits"]
    return Cost(
        parts,
        gpus=_gpus(setting),
        memory=search_memory(questions, depth, config, setting),
        gpu_memory=_search_gpu_memory(config, setting),
        disk=questions * depth * rates["hit_bytes"],
    )


def _search_gpu_memory(config: Config, setting: Setting) -> float:
    return model_bytes(config, setting) + 2.0 * BLOCK_BYTES if setting.hardware.gpus else 0.0


def _refresh_index(config: Config, setting: Setting, shards: int) -> Cost:
    """The old views are copied with the new ones; only these are added to an approximate kind."""
    load = setting.workload
    few = replace(setting, workload=replace(load, passages=load.passages * load.changed))
    whole, added = _index(config, setting, shards), _index(config, few, shards).parts
    return replace(whole, parts={**added, "copying views": whole.parts["copying views"]})


StepCost = Callable[[Config, Setting, int], Cost]

COSTS: dict[str, StepCost] = {
    "split": _split,
    "split-again": _split_again,
    "changes": _changes,
    "changes-with-queries": _changes,
    "make-questions": _make_questions,
    "bm25-negatives": _bm25_negatives,
    "evaluate-bm25": _evaluate_bm25,
    "evaluate-bm25-with-queries": _evaluate_bm25_with_queries,
    "initial-model": _initial_model,
    "train": _train,
    "encode": _encode,
    "encode-with-queries": _encode,
    "index": _index,
    "mine": _mine,
    "teach": _teach,
    "evaluate": _evaluate,
    "refresh-index": _refresh_index,
}
"""The cost model of each step whose work grows with the data."""
