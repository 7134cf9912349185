"""The time, memory and disk of each step before it runs: formulas over counts, the model's shape, and rates.

Good to some tens of per cent. Rates were measured on one core of an AMD EPYC (Zen 4, with bfloat16). A GPU does a share of
the operations that its maker publishes, measured for encoding on an H200 and else assumed, or waits for launches and
for the cores that tokenise, as measured there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from multiview.config import Config
from multiview.config.overrides import Overrides, merge, validate
from multiview.errors import InputError, nearest
from multiview.model.base_model.checkpoint import CONFIG_FILE, staged_base
from multiview.model.layouts import architecture
from multiview.model.systems import resolve, resolve_systems
from multiview.plans.plan import Node
from multiview.plans.request import Request
from multiview.steps.path import StepPath

GENERATOR_INPUT = 512
"""Longest input of a query generator in tokens."""
CORE_FLOPS = {"encode": 9.1e10, "train": 7e10, "generate": 5.9e10, "search": 1e11}
HALF_FLOPS = CORE_FLOPS | {"encode": 1.5e11, "train": 1.2e11}
"""Operations per second in float32 and in bfloat16."""
GPU_SHARES = {"encode": 0.34, "train": 0.35, "generate": 0.1, "search": 0.5}
TOKENISED, TOKENISERS = 1.7e5, 8
"""Tokens that a core lays out per second, and the most cores that do so for one GPU."""
LAUNCH_SECONDS = 1e-2
"""Launches of a layer's forward and backward pass in a training step, in about three groups of sequences."""


class Gpu(NamedTuple):
    """A GPU by its maker's data sheet: operations per second on dense matrices, and bytes of memory."""

    name: str
    flops: float
    half_flops: float
    memory: float


GPUS = {
    "h100": Gpu("NVIDIA H100 SXM", 67e12, 989e12, 80e9),
    "a100": Gpu("NVIDIA A100 SXM 80 GB", 19.5e12, 312e12, 80e9),
    "l4": Gpu("NVIDIA L4", 30.3e12, 121e12, 24e9),
}
SPLIT_WORDS, BM25_WORDS, BM25_SCORES, ANSWER_WORDS = 4e6, 1.2e6, 4e8, 4e7
COPIED_BYTES, READ_BYTES, HNSW_VIEWS = 3.1e8, 1e9, 1.5e4
"""Work per second: words and scores; bytes copied with their digests, bytes read from a local SSD, views into a graph."""
START_SECONDS, PROCESS_BYTES = 5.0, 5.5e8
"""Start and memory of a process with torch and transformers."""
STORED_WORD, INDEXED_WORD, TOKENS_PER_WORD, QUESTION_TOKENS, EXTRA_TOKENS = 3.0, 22.0, 1.3, 14, 10
ROW, QUESTION, HIT = 270.0, 1200.0, 12.0
"""Bytes per passage and per question in memory, and per hit on disk."""
QUESTIONS_AT_ONCE, HITS_AT_ONCE, BLOCK = 4096, 4.2e6, 4e7
"""Questions that share a pass over views which are read from the disk, their hits, and the bytes of a block and its products."""
PER_PASSAGE = {
    "split": (0.0, 2 * ROW, 0.0),
    "changes": (3e-7, ROW, 0.03),
    "gather-queries": (0.0, 0.0, 320.0),
    "evaluate-queries": (2e-5, 0.0, 0.0),
    "export": (5e-4, 600.0, 12_000.0),
    "follow-champion": (1.3e-4, 300.0, 0.0),
}
"""Seconds, bytes of memory and bytes of disk per passage of steps whose work is small beside the others'."""
OF_CHANGES = ("encode", "generate-queries", "gather-queries")
"""Steps of a refresh that read only the changed passages."""
ANALYSED_PASSAGES = {"attention": 1_000, "variation": 1_500, "padding": 60_000}
SHARD_SECONDS, MOST_SHARDS = 7200.0, 100
"""A shard is encoded within this time: it is what a pod that is killed repeats."""


class ModelShape(NamedTuple):
    """The sizes of a BERT-like encoder, in the order of `SIZES`."""

    layers: int
    width: int
    inner: int
    vocabulary: int = 30_522
    positions: int = 512

    @property
    def multiplied(self) -> int:
        """The parameters that every token is multiplied with."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner)

    @property
    def parameters(self) -> int:
        """All parameters, without a pooler: the multiplied ones, embeddings, biases and norms."""
        embeddings = (self.vocabulary + self.positions + 4) * self.width
        return self.multiplied + embeddings + self.layers * (9 * self.width + self.inner)

    def flops(self, tokens: float, length: float) -> float:
        """Operations of a forward pass over `tokens` tokens in sequences of `length`: the products, and attention."""
        return tokens * (2 * self.multiplied + 4 * self.layers * length * self.width)


SIZES = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
BERT_BASE = ModelShape(12, 768, 3072)
SHAPES = {
    "minilm-l6": ModelShape(6, 384, 1536),
    "bert-base": BERT_BASE,
    "bert-large": ModelShape(24, 1024, 4096),
    "bert-base-uncased": BERT_BASE,
    "Luyu/co-condenser-wiki": BERT_BASE,
}
"""Shapes that are known without the model's config.json."""
T5 = ModelShape(24, 768, 3072, 32_128, 0)
"""A generator is taken to be as large as T5-base, whose decoder has as many layers as its encoder."""


def shape_of(model: str) -> ModelShape:
    """The shape of a model of `SHAPES`, or of a base model as in `model.base`, by its config.json. Raises InputError."""
    if model in SHAPES:
        return SHAPES[model]
    try:
        with staged_base(model, "model") as folder:
            config = json.loads((Path(folder) / CONFIG_FILE).read_text())
    except InputError as error:
        raise InputError(f"{error}{nearest(model, SHAPES)}") from error
    if missing := [name for name in SIZES if name not in config]:
        raise InputError(f"model: {model} has no {missing[0]}: give one of {', '.join(SHAPES)}")
    return ModelShape(*(config[name] for name in SIZES))


@dataclass(frozen=True)
class Cost:
    """The cost of a step with all of its shards."""

    seconds: float = 0.0
    memory: float = 0.0
    """Bytes of main memory of one process, at most; `gpu_memory` of one GPU."""
    disk: float = 0.0
    """Bytes of its outputs."""
    gpu_memory: float = 0.0
    gpus: int = 0
    """GPUs that work at the same time."""


@dataclass(frozen=True)
class Scenario:
    """Everything that the cost of a step depends on: the data, the model, the machines and the step's settings."""

    passages: float
    words: float
    """Words per passage."""
    questions: float
    """Training questions."""
    dev_questions: float
    shape: ModelShape
    changed: float = 0.01
    """Share of the passages that a refresh finds changed."""
    gpus: int = 0
    """GPUs in all; 0: processors do everything."""
    gpu: str = "h100"
    cores: int = 8
    """Cores of a step's pod; `memory` is its main memory in bytes."""
    memory: float = 64e9
    config: Config = field(default_factory=Config)
    shards: int = 1

    @property
    def view_count(self) -> float:
        """Indexed views: of a passage one for dpr, one per query where queries are read, else `model.views`."""
        views = self.config.generation.queries if self.reads_queries else self.config.model.views
        return self.passages * (1 if self.config.model.architecture == "dpr" else views)

    @property
    def view_bytes(self) -> float:
        return 2.0 * self.view_count * self.shape.width

    @property
    def model_bytes(self) -> float:
        return 4.0 * self.shape.parameters * (1 if self.config.model.tied else 2)

    @property
    def tokens(self) -> float:
        """Tokens of a passage in one sequence."""
        tokens = TOKENS_PER_WORD * self.words + EXTRA_TOKENS + self.config.model.views
        return min(tokens, self.config.model.passage_length)

    @property
    def negatives(self) -> int:
        """The most hard negatives of a question: BM25's, and in later rounds mined ones too."""
        return self.config.bm25.depth + self.config.mining.number

    @property
    def drafts(self) -> float:
        """Questions that are made from the passages, at most."""
        made = self.config.make_questions
        return self.passages * made.share * min(made.per_passage, made.snippets)

    @property
    def reads_queries(self) -> bool:
        return architecture(self.config.model.architecture).reads_queries

    def rate(self, work: str, half: bool = False, gpus: int = 1) -> float:
        """Operations per second of up to `gpus` GPUs, or of all cores where there are none."""
        if not self.gpus:
            return self.cores * (HALF_FLOPS if half else CORE_FLOPS)[work]
        gpu = GPUS[self.gpu]
        return min(gpus, self.gpus) * GPU_SHARES[work] * (gpu.half_flops if half else gpu.flops)

    def tokenising(self, tokens: float, gpus: int, pods: int = 1) -> float:
        """Seconds for which `gpus` GPUs in each of `pods` pods wait until `tokens` tokens are laid out."""
        if not self.gpus:
            return 0.0
        gpus, pods = min(gpus, self.gpus), min(pods, self.gpus)
        return tokens / TOKENISED / pods / max(1, min(TOKENISERS * gpus, self.cores - gpus))

    def on_device(self, seconds: float, held: float, disk: float, gpus: int = 1) -> Cost:
        """The cost of a step whose model and batches, `held` bytes, are on a GPU if there is one."""
        if self.gpus:
            return Cost(seconds, 0.0, disk, held, min(gpus, self.gpus))
        return Cost(seconds, held, disk)


def split(s: Scenario) -> Cost:
    words = s.passages * s.words
    return Cost(words / SPLIT_WORDS, s.questions * QUESTION, words * STORED_WORD)


def bm25(s: Scenario, questions: float, depth: int, more_words: float = 0.0) -> Cost:
    """The inverted index is in memory, and every passage is scored for every question."""
    words = s.passages * (s.words + more_words)
    seconds = words / BM25_WORDS + questions * (s.passages / BM25_SCORES + depth * s.words / ANSWER_WORDS)
    held = words * INDEXED_WORD + s.passages * ROW + questions * QUESTION
    return Cost(seconds, held, questions * depth * HIT)


def generate(s: Scenario, texts: float, queries: int) -> Cost:
    """Half of the layers read a text, half of them write its queries, each as long as the longest of its batch."""
    settings, written = s.config.generation, texts * queries * 2 * QUESTION_TOKENS
    length = min(s.words * TOKENS_PER_WORD + EXTRA_TOKENS, GENERATOR_INPUT)
    flops = T5.flops(texts * length, length) / 2 + written * (T5.multiplied + 2 * T5.vocabulary * T5.width)
    held = 4.4 * T5.parameters + settings.batch_size * queries * 4.0 * T5.layers * T5.width * (length + 28)
    return s.on_device(flops / s.rate("generate", gpus=s.shards), held, written * STORED_WORD, s.shards)


def train_generator(s: Scenario) -> Cost:
    settings = s.config.generation.train
    length = min(s.words * TOKENS_PER_WORD, GENERATOR_INPUT) + QUESTION_TOKENS
    pairs = min(settings.epochs * s.questions, (settings.max_steps or math.inf) * settings.batch_size)
    seconds = 3 * T5.flops(pairs * length, length) / s.rate("train", settings.precision != "float32")
    held = 17.6 * T5.parameters + min(settings.batch_size, pairs) * activation_bytes(T5, length)
    return s.on_device(seconds, held, 4.4 * T5.parameters)


def activation_bytes(
    shape: ModelShape, length: float, half: bool = False, dropout: bool = True, again: bool = False
) -> float:
    """Bytes that the backward pass needs of a sequence: 34 D + 5 a s per token and layer in half precision, the second
    term only with dropout of attention (Korthikanti et al., 2022); where layers are computed `again`, 2 D beside one
    layer."""
    heads = max(1, shape.width // 64)
    layer = 34 * shape.width + (5 * heads * length if dropout else 0)
    each = 2 * shape.width * shape.layers + layer if again else layer * shape.layers
    return length * each * (1 if half else 2)


def train(s: Scenario) -> Cost:
    """Three forward passes' operations per step; weights, gradients and AdamW's moments beside the activations. Each
    process of a pod has the weights and the data in main memory."""
    settings, half = s.config.train, s.config.train.precision != "float32"
    batch, again = max(1.0, min(settings.batch_size, s.questions)), settings.gradient_checkpointing
    steps = min(max(1.0, settings.epochs * (s.questions // batch)), settings.max_steps or math.inf)
    sequences = batch * (1 + settings.negatives)
    tokens = sequences * s.tokens + batch * QUESTION_TOKENS
    passes = 3 + bool(settings.chunk) + again
    seconds = passes * s.shape.flops(tokens, s.tokens) / s.rate("train", half, s.gpus)
    launches = LAUNCH_SECONDS * s.shape.layers * bool(s.gpus)
    seconds = steps * max(seconds, launches, s.tokenising(tokens, s.gpus))
    if settings.validate_steps:
        pool = min(settings.validation_passages, s.passages) * s.tokens
        validations = steps // settings.validate_steps + 1
        seconds += validations * s.shape.flops(pool, s.tokens) / s.rate("encode", half)
    dropout = settings.dropout if settings.attention_dropout is None else settings.attention_dropout
    at_once = min(settings.chunk or math.inf, sequences / max(1, s.gpus))
    held = 4 * s.model_bytes + at_once * activation_bytes(s.shape, s.tokens, half, dropout > 0, again)
    data = s.questions * (QUESTION + (160.0 * s.negatives if settings.negatives else 0.0))
    processes = min(8, s.gpus) * (s.model_bytes + data + PROCESS_BYTES)
    cost = s.on_device(seconds, held, s.model_bytes, s.gpus)
    return replace(cost, memory=cost.memory + data + processes)


def warm_up(s: Scenario) -> Cost:
    """A training with a generated query of each passage, without hard negatives and validation."""
    settings = s.config.train.model_copy(update={"negatives": 0, "validate_steps": None})
    config = s.config.model_copy(update={"train": settings})
    return train(replace(s, config=config, questions=s.passages))


def encode(s: Scenario) -> Cost:
    """A forward pass over each passage, or over each of its queries with it."""
    sequences, half = s.view_count if s.reads_queries else s.passages, s.config.encode.compute != "float32"
    seconds = s.shape.flops(sequences * s.tokens, s.tokens) / s.rate("encode", half, s.shards)
    seconds = max(seconds, s.tokenising(sequences * s.tokens, 1, s.shards))
    batch = 4.0 * s.config.encode.batch_tokens * (s.shape.inner + 6 * s.shape.width)
    return s.on_device(seconds, 4.0 * s.shape.parameters + batch, s.view_bytes + 52 * s.passages, s.shards)


def teach(s: Scenario) -> Cost:
    """Forward passes of a cross-encoder, which is taken to be as large as the base model, over every pair."""
    pairs, tokens = s.questions * (1 + s.negatives), s.tokens + QUESTION_TOKENS
    seconds = s.shape.flops(pairs * tokens, tokens) / s.rate("encode", s.config.encode.compute != "float32")
    cost = s.on_device(seconds, 4.0 * s.shape.parameters, pairs * HIT)
    return replace(cost, memory=cost.memory + s.questions * QUESTION + 200 * pairs)


def lists_of(views: float) -> float:
    """Inverted lists of an approximate index: faiss asks for 39 views to train each."""
    return min(4 * math.sqrt(views), views / 39)


def index_bytes(kind: str, s: Scenario) -> tuple[float, float]:
    """Bytes of an index' views and tables, and of `index.faiss` (docs/index-kinds.md); a factory string counts as float32."""
    views, dim = s.view_count, s.shape.width
    lists = lists_of(views) * (4.0 * dim + 8)
    faiss = {
        "exact": 0.0,
        "compact": views * (dim + 8) + lists,
        "tiny": views * (dim / 8 + 16) + lists + 4.0 * dim**2,
        "hnsw": views * (dim + 272),
    }
    return s.view_bytes + 52 * s.passages, faiss.get(kind, 4.0 * views * dim)


def index(s: Scenario, added: float = 1.0) -> Cost:
    """A copy of the views. The share `added` of them goes into a graph, or into lists after ten rounds of k-means."""
    kind, views, seconds = s.config.index.kind, s.view_count, s.view_bytes / COPIED_BYTES
    if kind == "hnsw":
        seconds += added * views / HNSW_VIEWS
    elif kind != "exact":
        lists = lists_of(views)
        products = 2.0 * lists * s.shape.width * (views + 10 * min(views, 65_536 + 64 * lists))
        seconds += added * products / (CORE_FLOPS["search"] * s.cores)
    plain, faiss = index_bytes(kind, s)
    return Cost(seconds, s.passages * ROW + faiss, plain + faiss)


def search(s: Scenario, questions: float, depth: int, rankings: float = 1) -> Cost:
    """Each question is multiplied with every view, or with the views of some lists in an approximate index; views that do not
    fit in memory are read once per group of questions."""
    views, hits, passes, model = s.view_count, questions * depth * rankings, 1.0, s.model_bytes
    if s.config.index.kind != "exact" and rankings == 1:
        views = min(views, 4 * math.sqrt(views) + views**0.75)
    elif s.view_bytes > s.memory:
        passes = math.ceil(max(questions / QUESTIONS_AT_ONCE, hits / HITS_AT_ONCE))
    seconds = 2.0 * views * s.shape.width * (questions / s.rate("search") + passes / READ_BYTES)
    seconds += s.shape.flops(questions * QUESTION_TOKENS, QUESTION_TOKENS) / s.rate("encode")
    seconds += hits * s.words / ANSWER_WORDS
    held = questions * (QUESTION + 4 * s.shape.width) + hits * 100 + model
    held += min(hits, HITS_AT_ONCE) * 150 + BLOCK
    held += 2 * s.passages * ROW + index_bytes(s.config.index.kind, s)[1]
    return Cost(seconds, held, questions * depth * HIT, model + 3e8 if s.gpus else 0.0, min(1, s.gpus))


def evaluate(s: Scenario) -> Cost:
    """A search, with a ranking by each view alone and by the first views; passages are encoded for analyses."""
    views = s.view_count / s.passages
    asked = set(s.config.evaluation.analyses) if views > 1 else set()
    rankings = 1 + views * ("each_view" in asked) + min(views - 1, 16) * ("first_views" in asked)
    cost = search(s, s.dev_questions, s.config.evaluation.depth, rankings)
    encoded = min(s.passages, sum(ANALYSED_PASSAGES.get(name, 0) for name in asked)) * s.tokens
    return replace(cost, seconds=cost.seconds + s.shape.flops(encoded, s.tokens) / s.rate("encode"))


def bm25_with_queries(s: Scenario) -> Cost:
    words = s.config.generation.queries * QUESTION_TOKENS / TOKENS_PER_WORD
    return bm25(s, s.dev_questions, s.config.evaluation.depth, words)


FORMULAS: dict[str, Callable[[Scenario], Cost]] = {
    "split": split,
    "initial-generator": lambda s: Cost(0.0, 4.4 * T5.parameters, 4.4 * T5.parameters),
    "train-generator": train_generator,
    "generate-queries": lambda s: generate(s, s.passages, s.config.generation.queries),
    "generate-questions": lambda s: generate(s, s.drafts, 1),
    "make-questions": lambda s: bm25(s, s.drafts if s.config.make_questions.found_within else 0, 0),
    "bm25-negatives": lambda s: bm25(s, s.questions, s.config.bm25.depth),
    "evaluate-bm25": lambda s: bm25(s, s.dev_questions, s.config.evaluation.depth),
    "evaluate-bm25-with-queries": bm25_with_queries,
    "initial-model": lambda s: Cost(0.0, s.model_bytes, s.model_bytes),
    "warm-up": warm_up,
    "train": train,
    "encode": encode,
    "index": index,
    "mine": lambda s: search(s, s.questions, s.config.mining.depth),
    "teach": teach,
    "evaluate": evaluate,
    "refresh-index": lambda s: index(s, s.changed),
}
"""The formulas of the steps whose work grows with the data."""


def cost_of(step: str, scenario: Scenario) -> Cost:
    """The cost of a step of the table of steps, with the start of its process."""
    plain = step if step in FORMULAS else step.removesuffix("-with-queries").removesuffix("-again")
    cost = FORMULAS[plain](scenario) if plain in FORMULAS else Cost()
    seconds, memory, disk = (scenario.passages * each for each in PER_PASSAGE.get(plain, (0.0, 0.0, 0.0)))
    return replace(
        cost,
        seconds=cost.seconds + seconds + START_SECONDS,
        memory=cost.memory + memory + PROCESS_BYTES,
        disk=cost.disk + disk,
    )


def estimate(request: Request, scenario: Scenario) -> dict[StepPath, Cost]:
    """The cost of each step of a request's plan, with all of its shards."""
    few = replace(scenario, passages=scenario.passages * scenario.changed)
    costs = {}
    for path, node in request.plan.nodes.items():
        of_changes = node.step.name.removesuffix("-with-queries") in OF_CHANGES
        there = few if request.plan.name == "refresh" and of_changes else scenario
        there = replace(there, config=config_of(node, request), shards=len(node.shards) or 1)
        costs[path] = cost_of(node.step.name, there)
    return costs


def config_of(node: Node, request: Request) -> Config:
    """The whole config around a step: the settings of its system, overridden by its own."""
    config = base_config(request.overrides)
    if request.plan.name == "comparison":
        config = resolve_systems(request.overrides).get(node.path.system, config)
    return validate(merge(config.model_dump(mode="json"), json.loads(node.config)))


def base_config(overrides: Overrides) -> Config:
    """The config of what all systems of a request share, over the defaults of its architecture."""
    return resolve({name: value for name, value in overrides.items() if name != "comparison"})


def shards_for(overrides: Overrides, scenario: Scenario) -> int:
    """The number of shards, each encoded within `SHARD_SECONDS`; a multiple of the GPUs where possible."""
    gpus = min(max(1, scenario.gpus), MOST_SHARDS)
    one = replace(scenario, gpus=min(1, scenario.gpus), config=base_config(overrides))
    wanted = gpus * math.ceil(max(2, cost_of("encode", one).seconds / SHARD_SECONDS) / gpus)
    return wanted if wanted <= MOST_SHARDS else MOST_SHARDS // gpus * gpus
