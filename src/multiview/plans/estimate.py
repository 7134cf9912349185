"""The time, memory and disk of each step before it runs: formulas over the counts of a `Scenario`. Seconds are accurate
to some tens of per cent, and what changes them less is left out. Memory is estimated generously."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from multiview.config import Config
from multiview.config.overrides import Overrides, merge, validate
from multiview.data.reading.tables import BATCH
from multiview.generation.prompt import read_prompt
from multiview.index.approximate import FACTORY
from multiview.model.systems import resolve, resolve_systems, shared
from multiview.negatives.filters import HITS_AT_ONCE
from multiview.negatives.negatives_file import BM25
from multiview.plans.plan import Node
from multiview.plans.request import Request
from multiview.plans.scenario import TOKENS_PER_WORD, Scenario
from multiview.steps.path import StepPath

START_SECONDS, PROCESS_BYTES = 5.0, 7e8
"""Start and memory of a process with torch and transformers."""
SPLIT_WORDS, BM25_WORDS, BM25_SCORES, HNSW_VIEWS = 4e6, 1.2e6, 4e8, 1.5e4
"""Per second: words split, words indexed by BM25, scores of BM25, views added to an HNSW graph."""
COPIED_BYTES, READ_BYTES = 3.1e8, 1e9
"""Per second: bytes copied with their digests, bytes read from a local SSD."""
LAUNCH_SECONDS = 1e-2
"""Seconds that a layer's kernel launches, forward and backward, take per training step."""
QUESTION_TOKENS = 14
STORED_WORD, INDEXED_WORD, READ_WORD, ROW, QUESTION = 3.0, 22.0, 80.0, 270.0, 1200.0
HIT, SEARCH_HIT = 12.0, 250.0
"""Bytes: of a word in a split, in BM25 and while passages are read, a passage and a question in memory, a hit on disk and
in memory."""
ACTIVATIONS = 100
"""Bytes per token, layer and unit of width that a backward pass needs; 70 in half precision on an H200."""
QUESTIONS_AT_ONCE = 4096
"""Questions that share a pass over views which do not fit in memory."""
SHARD_SECONDS, MOST_SHARDS = 7200.0, 100
"""Most time to encode a shard, which a killed pod has to repeat; and most shards."""
GENERATOR, GENERATOR_BYTES, GENERATOR_UNITS = 2e8, 9e8, 24 * 768
"""Parameters, bytes, and layers times width of a query generator, assumed to be as large as T5-base."""
REQUEST_SECONDS, REQUEST_TOKENS = 2.0, 180
"""Seconds and tokens per request to a language model, with its answer; the seconds are assumed."""


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


def on_device(
    s: Scenario, seconds: float, held: float, disk: float, gpus: int = 1, memory: float = 0.0
) -> Cost:
    """The cost of a step that holds `held` bytes on a GPU if there is one, and `memory` bytes in main memory."""
    if s.gpus:
        return Cost(seconds, memory, disk, held, min(gpus, s.gpus))
    return Cost(seconds, memory + held, disk)


def split(s: Scenario) -> Cost:
    words = s.passages * s.words
    held = min(s.passages, BATCH) * s.words * READ_WORD + s.passages * 2 * ROW + s.questions * QUESTION
    return Cost(words / SPLIT_WORDS, held, words * STORED_WORD)


def bm25(s: Scenario, questions: float, depth: int, queries: int = 0, at_once: float = math.inf) -> Cost:
    """Holds the inverted index in memory, and scores every passage, with its `queries`, for every question; `at_once` is
    the number of hits that are held, here and in `search`."""
    words = s.passages * (s.words + queries * QUESTION_TOKENS / TOKENS_PER_WORD)
    seconds = words / BM25_WORDS + questions * s.passages / BM25_SCORES
    held = words * INDEXED_WORD + s.passages * ROW + questions * QUESTION
    hits = questions * depth
    return Cost(seconds, held + hits * HIT + min(hits, at_once) * SEARCH_HIT, hits * HIT)


def drafts(s: Scenario) -> float:
    """The most questions that can be made from the passages."""
    made = s.config.make_questions
    return s.passages * made.share * min(made.per_passage, made.snippets)


def requests(s: Scenario) -> float:
    """Requests to a language model: one per draft, and one more if a judge is asked about it."""
    return drafts(s) * (2 if read_prompt(s.config.make_questions.llm.prompt).judge else 1)


def generate(s: Scenario, texts: float, queries: int) -> Cost:
    """Half of the layers read a text, the others write its queries, each as long as the longest one in its batch."""
    written = texts * queries * 2 * QUESTION_TOKENS
    seconds = s.seconds("generate", GENERATOR * (texts * s.tokens + written), gpus=s.shards)
    keys_and_values = s.config.generation.batch_size * queries * 4.0 * GENERATOR_UNITS * (s.tokens + 28)
    return on_device(s, seconds, GENERATOR_BYTES + keys_and_values, written * STORED_WORD, s.shards)


def ask(s: Scenario) -> Cost:
    """Holds the answers in memory."""
    seconds = requests(s) * REQUEST_SECONDS / s.config.make_questions.llm.concurrency
    return Cost(seconds, drafts(s) * 2 * ROW, drafts(s) * ROW)


def train_generator(s: Scenario) -> Cost:
    settings, length = s.config.generation.train, s.tokens + QUESTION_TOKENS
    pairs = min(settings.epochs * s.questions, (settings.max_steps or math.inf) * settings.batch_size)
    seconds = s.seconds("train", 6 * GENERATOR * pairs * length, settings.precision != "float32")
    batch = min(settings.batch_size, pairs) * length * ACTIVATIONS * GENERATOR_UNITS
    return on_device(s, seconds, 4 * GENERATOR_BYTES + batch, GENERATOR_BYTES)


def train(s: Scenario, questions: float, negatives: int) -> Cost:
    """A step costs three forward passes, and holds weights, gradients, AdamW's moments and activations; with LoRA, at
    most twice the weights and the activations. Each process of a pod has the weights and the data in main memory."""
    settings, half, shape = s.config.train, s.config.train.precision != "float32", s.shape
    batch = max(1.0, min(settings.batch_size, questions))
    steps = min(max(1.0, settings.epochs * (questions // batch)), settings.max_steps or math.inf)
    sequences = batch * (1 + negatives)
    tokens = sequences * s.tokens + batch * QUESTION_TOKENS
    passes = 3 + bool(settings.chunk) + settings.gradient_checkpointing
    launches = LAUNCH_SECONDS * shape.layers * bool(s.gpus)
    seconds = steps * max(launches, s.forward("train", tokens, half, s.gpus, passes))
    if settings.validate_steps:
        pool = min(settings.validation_passages, s.passages) * s.tokens
        seconds += steps / settings.validate_steps * s.forward("encode", pool, half)
    at_once = min(settings.chunk or math.inf, sequences / max(1, s.gpus)) * s.tokens
    layers = ACTIVATIONS + 2 * shape.layers if settings.gradient_checkpointing else ACTIVATIONS * shape.layers
    held = (2 if settings.lora_rank else 4) * s.model_bytes + at_once * layers * shape.width
    mined = s.config.bm25.depth + s.config.mining.number if negatives else 0
    data = questions * (QUESTION + 160.0 * mined)
    processes = min(8, s.gpus) * (s.model_bytes + data + PROCESS_BYTES)
    return on_device(s, seconds, held, s.model_bytes, s.gpus, data + processes)


def encode(s: Scenario) -> Cost:
    """A forward pass over each sequence; each shard has its own pod, with a GPU if there are any."""
    half, tokens = s.config.encode.compute != "float32", s.sequences * s.tokens
    seconds = s.forward("encode", tokens, half, s.shards, pods=max(1, min(s.shards, s.gpus)))
    batch = 4.0 * s.config.encode.batch_tokens * (s.shape.inner + 6 * s.shape.width)
    return on_device(s, seconds, 4.0 * s.shape.parameters + batch, s.view_bytes, s.shards)


def teach(s: Scenario) -> Cost:
    """Scores every pair."""
    pairs = s.questions * (1 + s.config.bm25.depth + s.config.mining.number)
    held, data = 4.0 * s.shape.parameters, s.questions * QUESTION + 200 * pairs
    return on_device(s, scoring(s, pairs), held, pairs * HIT, memory=data)


def scoring(s: Scenario, pairs: float) -> float:
    """Seconds of forward passes of a cross-encoder, assumed to be as large as the base model, over `pairs`."""
    return s.forward("encode", pairs * s.tokens, s.config.encode.compute != "float32")


def faiss_bytes(kind: str, s: Scenario) -> float:
    """Bytes of `index.faiss` (docs/index-kinds.md) without its centroids; a factory string counts as float32."""
    dim = s.shape.width
    per_view = {"exact": 0.0, "compact": dim + 8, "tiny": dim / 8 + 16, "hnsw": dim + 272}
    return s.view_count * per_view.get(kind, 4.0 * dim)


def index(s: Scenario, added: float = 1.0) -> Cost:
    """Copies the views; the share `added` of them goes into a graph, or into lists after ten rounds of k-means, which
    hold the sample in float32, its rotation and the residuals of both."""
    kind, views, faiss = s.config.index.kind, s.view_count, faiss_bytes(s.config.index.kind, s)
    seconds, lists = s.view_bytes / COPIED_BYTES, 4 * math.sqrt(views)
    listed = kind in FACTORY or "IVF" in kind
    held = faiss if listed else 3 * faiss  # an array of codes is copied to be edited, and to grow
    if kind == "hnsw":
        seconds += added * views / HNSW_VIEWS
    elif kind != "exact":
        sample = min(views, max(65_536, 64 * lists))
        seconds += added * replace(s, gpus=0).seconds(
            "search", 2.0 * lists * s.shape.width * (views + 10 * sample)
        )
        held = max(held, 4 * 4.0 * s.shape.width * sample)
    return Cost(seconds, s.passages * ROW + held, s.view_bytes + faiss)


def with_bm25(cost: Cost, s: Scenario, questions: float = 0) -> Cost:
    """`cost` plus that of a BM25 index kept beside the views, whose terms and scores count once each."""
    words = bm25(s, questions, 0)
    return replace(
        cost,
        seconds=cost.seconds + words.seconds,
        memory=cost.memory + words.memory,
        disk=cost.disk + words.memory,
    )


def with_search(cost: Cost, s: Scenario) -> Cost:
    """`cost` plus that of what an index holds besides views, by `search.mode`."""
    return cost if s.config.search.mode == "dense" else with_bm25(cost, s)


def search(s: Scenario, questions: float, depth: int, rankings: float = 1, at_once: float = math.inf) -> Cost:
    """Multiplies each question with every view, or those in some lists; views on disk are read once per group."""
    views, hits = s.view_count, questions * depth
    if s.config.index.kind != "exact" and rankings == 1:
        views = min(views, 4 * math.sqrt(views) + views**0.75)
    passes = math.ceil(questions / QUESTIONS_AT_ONCE) if s.view_bytes > s.memory else 1
    products = 2.0 * views * s.shape.width
    seconds = s.seconds("search", products * questions) + passes * products / READ_BYTES
    seconds += s.forward("encode", questions * QUESTION_TOKENS)
    held = questions * (QUESTION + 4 * s.shape.width) + min(hits * rankings, at_once) * SEARCH_HIT
    held += 2 * s.passages * ROW + faiss_bytes(s.config.index.kind, s) + s.model_bytes
    gpu_memory = s.model_bytes + 3e8 if s.gpus else 0.0
    return Cost(seconds, held, hits * HIT, gpu_memory, min(1, s.gpus))


def evaluate(s: Scenario) -> Cost:
    """A search; analyses also need rankings by each single view, and a cross-encoder reranks."""
    views, settings = s.view_count / s.passages, s.config.search
    rankings = 2 * views if s.config.evaluation.analyses and views > 1 else 1
    found = search(s, s.dev_questions, s.config.evaluation.depth, rankings)
    scored = scoring(s, s.dev_questions * settings.rerank_depth) if settings.rerank else 0.0
    return replace(found, seconds=found.seconds + scored)


def mine(s: Scenario) -> Cost:
    """A search, whose hits a cross-encoder may score."""
    hits = s.questions * s.config.mining.depth
    found = search(s, s.questions, s.config.mining.depth, at_once=HITS_AT_ONCE)
    return replace(
        found, seconds=found.seconds + (scoring(s, hits) if s.config.mining.cross_encoder else 0.0)
    )


FORMULAS: dict[str, Callable[[Scenario], Cost]] = {
    "split": split,
    "initial-generator": lambda s: Cost(0.0, GENERATOR_BYTES, GENERATOR_BYTES),
    "train-generator": train_generator,
    "generate-queries": lambda s: generate(s, s.passages, s.config.generation.queries),
    "generate-questions": lambda s: generate(s, drafts(s), 1),
    "ask-questions": ask,
    "make-questions": lambda s: bm25(s, drafts(s) if s.config.make_questions.found_within else 0, 0),
    "make-questions-by-index": lambda s: with_bm25(search(s, drafts(s), 10), s, drafts(s)),
    "bm25-negatives": lambda s: bm25(s, s.questions, s.config.bm25.depth, at_once=HITS_AT_ONCE),
    "evaluate-bm25": lambda s: bm25(s, s.dev_questions, s.config.evaluation.depth),
    "evaluate-bm25-with-queries": lambda s: bm25(
        s, s.dev_questions, s.config.evaluation.depth, s.config.generation.queries
    ),
    "initial-model": lambda s: Cost(0.0, s.model_bytes, s.model_bytes),
    "warm-up": lambda s: train(s, s.passages, 0),
    "train": lambda s: train(s, s.questions, s.config.train.negatives),
    "encode": encode,
    "index": index,
    "index-with-search": lambda s: with_search(index(s), s),
    "mine": mine,
    "teach": teach,
    "evaluate": evaluate,
    "changes": lambda s: Cost(s.passages * 3e-7, s.passages * ROW, s.passages * 0.03),
    "refresh-index": lambda s: index(s, s.changed),
    "refresh-index-with-search": lambda s: with_search(index(s, s.changed), s),
    "export": lambda s: Cost(s.passages * 5e-4, s.passages * 600.0, s.passages * 12_000.0),
    "follow-champion": lambda s: Cost(s.passages * 1.3e-4, s.passages * 300.0),
}
"""The formulas of the steps whose work grows with the data."""


def cost_of(step: str, scenario: Scenario) -> Cost:
    """The cost of a step in the table of steps, including the start of its process."""
    plain = step if step in FORMULAS else step.removesuffix("-with-queries").removesuffix("-again")
    cost = FORMULAS[plain](scenario) if plain in FORMULAS else Cost()
    return replace(cost, seconds=cost.seconds + START_SECONDS, memory=cost.memory + PROCESS_BYTES)


def estimate(request: Request, scenario: Scenario) -> dict[StepPath, Cost]:
    """The cost of each step of a request's plan, with all its shards. A refresh encodes only the changed passages."""
    few = replace(scenario, passages=scenario.passages * scenario.changed)
    costs = {}
    for path, node in request.plan.nodes.items():
        reads_changes = node.step.name in ("encode", "encode-with-queries", "generate-queries")
        there = few if request.plan.name == "refresh" and reads_changes else scenario
        there = replace(there, config=config_of(node, request), shards=len(node.shards) or 1)
        costs[path] = cost_of(node.step.name, there)
    return costs


def config_of(node: Node, request: Request) -> Config:
    """The whole config around a step: the settings of its system, overridden by its own."""
    config = base_config(request.plan.name, request.overrides)
    if request.plan.name == "comparison":
        systems, name = resolve_systems(request.overrides), node.path.system or ""
        config = systems.get(name) or systems.get(name.removesuffix(f"-{BM25}"), config)
    return validate(merge(config.model_dump(mode="json"), json.loads(node.config)))


def base_config(pipeline: str, overrides: Overrides) -> Config:
    """The config of a pipeline's system, or of what all systems of a comparison share."""
    given = {name: value for name, value in overrides.items() if name != "comparison"}
    return resolve(given) if pipeline == "training" else shared(given)


def shards_for(pipeline: str, overrides: Overrides, scenario: Scenario) -> int:
    """The number of shards such that each is encoded within `SHARD_SECONDS`; a multiple of the GPUs if possible."""
    gpus = min(max(1, scenario.gpus), MOST_SHARDS)
    one = replace(scenario, gpus=min(1, scenario.gpus), config=base_config(pipeline, overrides))
    wanted = gpus * math.ceil(max(2, cost_of("encode", one).seconds / SHARD_SECONDS) / gpus)
    return wanted if wanted <= MOST_SHARDS else MOST_SHARDS // gpus * gpus
