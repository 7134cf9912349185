"""What the cost of a plan depends on: the data, the model's shape, the machines with their rates, and the settings."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from multiview.config import Config
from multiview.errors import InputError, nearest
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.layouts import architecture


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


RATES = {
    "encode": (8e10, 1.5e11, 0.34),
    "train": (7e10, 1.2e11, 0.35),
    "generate": (5.9e10, 5.9e10, 0.1),
    "search": (1e11, 1e11, 0.5),
}
"""Operations per second of a core of an AMD EPYC (Zen 4) in float32 and in bfloat16, and the share that is reached of a
GPU's: measured on an H200 for encoding, assumed for the others."""
TOKENS_PER_WORD, EXTRA_TOKENS = 1.3, 10
TOKENISED = 1.7e5
"""Tokens per second that a core tokenises and lays out."""


class ModelShape(NamedTuple):
    """The sizes of a BERT-like encoder; `inner` is the width of a layer's feed-forward part."""

    layers: int
    width: int
    inner: int
    vocabulary: int = 30_522

    @property
    def multiplied(self) -> int:
        """The parameters that every token is multiplied with."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner)

    @property
    def parameters(self) -> int:
        """The multiplied parameters and the embeddings; the others are about one per cent."""
        return self.multiplied + self.vocabulary * self.width

    def flops(self, tokens: float, length: float) -> float:
        """Operations of a forward pass over `tokens` tokens in sequences of `length`: the products, and attention."""
        return tokens * (2 * self.multiplied + 4 * self.layers * length * self.width)


SIZES = ("num_hidden_layers", "hidden_size", "vocab_size")
BERT_BASE = ModelShape(12, 768, 3072)
SHAPES = {
    "minilm-l6": ModelShape(6, 384, 1536),
    "bert-base": BERT_BASE,
    "bert-large": ModelShape(24, 1024, 4096),
    "bert-base-uncased": BERT_BASE,
    "Luyu/co-condenser-wiki": BERT_BASE,
}
"""Shapes that are known without the model's config.json."""


def shape_of(model: str) -> ModelShape:
    """The shape of a model of `SHAPES`, or of one named as in `model.base`, by its config.json. Gated layers and shared
    keys, in which kinds of models differ, count in `inner`. Raises InputError if the shape is not known."""
    if model in SHAPES:
        return SHAPES[model]
    import torch
    from transformers import AutoConfig, AutoModel

    from multiview.model.base_model.loading import load_pretrained

    try:
        with staged_base(model, "model") as folder:
            config = load_pretrained(AutoConfig, folder, f"model: cannot read {model}")
        sizes: list[Any] = [getattr(config, size, None) for size in SIZES]
        if None in sizes:
            raise InputError(
                f"model: {model} has no {SIZES[sizes.index(None)]}: give one of {', '.join(SHAPES)}"
            )
    except InputError as error:
        raise InputError(f"{error}{nearest(model, SHAPES)}") from error
    with torch.device("meta"):
        parts = AutoModel.from_config(config).named_modules()
    linear = [part for path, part in parts if isinstance(part, torch.nn.Linear) and "pooler" not in path]
    layers, width, vocabulary = sizes
    inner = (sum(part.weight.numel() for part in linear) / layers - 4 * width**2) / (2 * width)
    return ModelShape(layers, width, round(inner), vocabulary)


@dataclass(frozen=True)
class Scenario:
    """The data, the model, the machines and the settings of a step."""

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
    """GPUs in total; 0: processors do everything."""
    gpu: str = "h100"
    cores: int = 8
    """Cores of a step's pod; `memory` is its main memory in bytes."""
    memory: float = 64e9
    config: Config = field(default_factory=Config)
    shards: int = 1

    @property
    def tokens(self) -> float:
        """Tokens of a passage in one sequence."""
        tokens = TOKENS_PER_WORD * self.words + EXTRA_TOKENS + self.config.model.views
        return min(tokens, self.config.model.passage_length)

    @property
    def sequences(self) -> float:
        """Encoded sequences: one per passage, or one per passage and query for an architecture that reads queries."""
        reads_queries = architecture(self.config.model.architecture).reads_queries
        return self.passages * (self.config.generation.queries if reads_queries else 1)

    @property
    def view_count(self) -> float:
        """Indexed views: one per sequence for single vectors and architectures that read queries, else `model.views`."""
        model = self.config.model
        one_each = (
            model.architecture in ("dpr", "sentence-transformer")
            or architecture(model.architecture).reads_queries
        )
        return self.sequences * (1 if one_each else model.views)

    @property
    def view_bytes(self) -> float:
        """Bytes of the views in float16, and of the tables beside them."""
        return 2.0 * self.view_count * self.shape.width + 52.0 * self.passages

    @property
    def model_bytes(self) -> float:
        return 4.0 * self.shape.parameters * (1 if self.config.model.tied else 2)

    def seconds(self, work: str, flops: float, half: bool = False, gpus: int = 1) -> float:
        """Seconds that up to `gpus` GPUs compute, or all cores if there are none."""
        core, half_core, gpu_share = RATES[work]
        if not self.gpus:
            return flops / self.cores / (half_core if half else core)
        gpu = GPUS[self.gpu]
        return flops / min(gpus, self.gpus) / gpu_share / (gpu.half_flops if half else gpu.flops)

    def forward(
        self, work: str, tokens: float, half: bool = False, gpus: int = 1, passes: int = 1, pods: int = 1
    ) -> float:
        """Seconds for `passes` forward passes over `tokens` tokens; with GPUs, at least those to tokenise them."""
        seconds = self.seconds(work, passes * self.shape.flops(tokens, self.tokens), half, gpus)
        busy = min(gpus, self.gpus)
        return max(seconds, tokens / TOKENISED / max(pods, pods * self.cores - busy)) if busy else seconds
