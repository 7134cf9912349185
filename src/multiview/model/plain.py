"""BERT and its tokenizer without transformers, whose model classes take longer to import than a question to answer.

For padded batches the same operations in the same order as transformers' BERT, so the same vectors to the bit; for
packed ones oneDNN's kernels where this machine has them. Other bases need transformers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from multiview.model.attention import attend_within
from multiview.model.bases import CONFIG_FILE
from multiview.model.onednn import OrderedLinear, multiplies

WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
READ_ROWS = 64
"""Tokens that the last layer ends with at a time, where it ends with few: a product's bits depend on its rows."""
FEW = 8
"""Most texts that are tokenised one after the other: for so few, tokenizers' threads take longer than the texts."""

TOKENIZERS = {"BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"}
"""Tokenizer classes of transformers that add nothing to their `tokenizer.json`."""


class BertConfig(NamedTuple):
    """What BERT's forward pass depends on, by transformers' names."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float

    @classmethod
    def read(cls, folder: Path) -> BertConfig:
        """Reads the configuration of the model in `folder`."""
        settings = _read(folder / CONFIG_FILE)
        return cls(**{name: settings[name] for name in cls._fields})


class Output(NamedTuple):
    """The part of transformers' output that is read."""

    last_hidden_state: Tensor
    """[S, L, D], or [1, N, D] of the tokens that were to be read."""


class ReadTokens(NamedTuple):
    """The tokens of packed sequences whose last hidden states are wanted."""

    rows: Tensor
    """int64 [N]: their places in the row, filled up to a multiple of `READ_ROWS` with the first token's."""
    counts: list[int]
    """The number of tokens of each sequence."""

    @classmethod
    def of(cls, positions: Sequence[Tensor], lengths: Sequence[int]) -> ReadTokens:
        """The tokens at `positions`, which count from each sequence's first token."""
        starts = accumulate(lengths[:-1], initial=0)
        rows = torch.cat([each + start for each, start in zip(positions, starts, strict=True)])
        return cls(nn.functional.pad(rows, (0, -len(rows) % READ_ROWS)), [len(each) for each in positions])


class PlainBert(nn.Module):
    """BERT without pooler, for inference with the weights that it is loaded with; parameters have transformers' names."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": _embedding(config.vocab_size, config.hidden_size),
                "position_embeddings": _embedding(config.max_position_embeddings, config.hidden_size),
                "token_type_embeddings": _embedding(config.type_vocab_size, config.hidden_size),
                "LayerNorm": nn.LayerNorm(config.hidden_size, config.layer_norm_eps),
            }
        )
        self._layers = [_Layer(config) for _ in range(config.num_hidden_layers)]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(self._layers)})

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        lengths: Sequence[int] | None = None,
        inputs_embeds: Tensor | None = None,
        read: Sequence[Tensor] | None = None,
    ) -> Output:
        """Returns the last hidden states of `input_ids` [S, L] where `attention_mask` [S, L] is 1.

        `inputs_embeds` [S, L, D] may take the place of the word embeddings of `input_ids`. With `lengths` the tokens
        are one row of packed sequences (`multiview.model.packed`), and `read` may have the positions in each of the tokens
        whose states are wanted: these alone are returned, sequence by sequence, and filled up [1, N, D].
        """
        of = self.embeddings
        words = self.get_input_embeddings()(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:
            position_ids = torch.arange(words.shape[1], device=words.device)[None]
        types = torch.zeros(words.shape[:2], dtype=torch.int64, device=words.device)
        words = words + of["token_type_embeddings"](types)
        hidden = of["LayerNorm"](words + of["position_embeddings"](position_ids))
        # Without padding there is no mask, as in transformers: the attention's kernel depends on it.
        mask = None
        if attention_mask is not None and not attention_mask.all():
            mask = attention_mask.bool()[:, None, None, :]
        wanted = ReadTokens.of(read, lengths) if read is not None and lengths is not None else None
        if lengths is not None and self._has_ordered_weights(hidden):
            *earlier, last = self._layers
            for layer in earlier:
                hidden = layer.packed(hidden, lengths)
            return Output(last.packed(hidden, lengths, wanted))
        for layer in self._layers:
            hidden = layer(hidden, mask, lengths)
        return Output(hidden if wanted is None else hidden[:, wanted.rows])

    def get_input_embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.embeddings["word_embeddings"]

    def _has_ordered_weights(self, hidden: Tensor) -> bool:
        """Orders the weights for oneDNN, once, if it is to multiply; says whether it is."""
        if hidden.device.type != "cpu" or torch.is_autocast_enabled("cpu") or not multiplies(hidden.dtype):
            return False
        if self._layers[0].ordered is None:
            for layer in self._layers:
                layer.order()
        return True

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype) -> PlainBert:
        """Loads the model that was saved in `folder`, in evaluation mode."""
        with torch.device("meta"):
            model = cls(BertConfig.read(folder))
        model.load_state_dict(load_file(folder / WEIGHTS_FILE), assign=True)
        return model.to(dtype).eval()


class _Ordered(NamedTuple):
    """The linear layers of one layer."""

    attended: OrderedLinear
    """Query, key and value."""
    joined: OrderedLinear
    intermediate: OrderedLinear
    output: OrderedLinear


class _Layer(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        size, inner, epsilon = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self._heads = config.num_attention_heads
        attended = nn.ModuleDict({name: nn.Linear(size, size) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": attended, "output": _dense_and_norm(size, size, epsilon)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, inner)})
        self.output = _dense_and_norm(inner, size, epsilon)
        self.ordered: _Ordered | None = None

    def order(self) -> None:
        """Copies the weights in oneDNN's order, those of query, key and value as one."""
        parts: Any = [*self.attention["self"].children()]
        later: Any = [self.attention["output"], self.intermediate, self.output]
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        dense = [OrderedLinear(part["dense"].weight, part["dense"].bias) for part in later]
        self.ordered = _Ordered(OrderedLinear(weight, bias), *dense)

    def packed(self, hidden: Tensor, lengths: Sequence[int], read: ReadTokens | None = None) -> Tensor:
        """What `forward` returns for packed sequences, by the ordered weights; of the tokens `read` alone where given."""
        assert self.ordered is not None
        states = self.ordered.attended(hidden).unflatten(-1, (3, self._heads, -1))
        query, key, value = states.permute(2, 0, 3, 1, 4)
        if read is None:
            return self._after_attention(attend_within(query, key, value, lengths), hidden)
        attended = attend_within(query[:, :, read.rows], key, value, lengths, asked=read.counts)
        parts = zip(attended.split(READ_ROWS, 2), hidden[:, read.rows].split(READ_ROWS, 1), strict=True)
        return torch.cat([self._after_attention(*part) for part in parts], dim=1)

    def _after_attention(self, attended: Tensor, hidden: Tensor) -> Tensor:
        """The rest of the layer, from the attention [1, H, T, d] and the layer's input `hidden` [1, T, D]."""
        assert self.ordered is not None
        output: Any = self.attention["output"]
        hidden = output["LayerNorm"](self.ordered.joined(attended.transpose(1, 2).flatten(-2)) + hidden)
        inner = self.ordered.intermediate.with_gelu(hidden)
        return self.output["LayerNorm"](self.ordered.output(inner) + hidden)

    def forward(self, hidden: Tensor, mask: Tensor | None, lengths: Sequence[int] | None) -> Tensor:
        query, key, value = (
            part(hidden).unflatten(-1, (self._heads, -1)).transpose(1, 2)
            for part in self.attention["self"].children()
        )
        if lengths is None:
            attended = nn.functional.scaled_dot_product_attention(query, key, value, mask)
        else:
            attended = attend_within(query, key, value, lengths)
        output = self.attention["output"]
        hidden = _joined(output, attended.transpose(1, 2).flatten(-2), hidden)
        return _joined(self.output, nn.functional.gelu(self.intermediate["dense"](hidden)), hidden)


def _embedding(count: int, size: int) -> nn.Embedding:
    # Not initialised: on torch's device "meta" that would import its compiler, for a second.
    return nn.Embedding.from_pretrained(torch.empty(count, size))


def _dense_and_norm(inner: int, size: int, epsilon: float) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": nn.Linear(inner, size), "LayerNorm": nn.LayerNorm(size, epsilon)})


def _joined(part: Any, inner: Tensor, hidden: Tensor) -> Tensor:
    return part["LayerNorm"](part["dense"](inner) + hidden)


class PlainTokenizer:
    """A tokenizer as a layout uses it (`Layout`): it adds no special tokens, and reads text that spells one as text."""

    def __init__(self, folder: Path) -> None:
        """Reads the tokenizer that was saved in `folder`."""
        self._backend = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self._special = _read(folder / TOKENIZER_CONFIG_FILE)

    def __call__(self, texts: list[str], **_: bool) -> dict[str, list[list[int]]]:
        """The ids of each text's tokens, under `input_ids`."""
        if len(texts) > FEW:
            encoded = self._backend.encode_batch(texts, add_special_tokens=False)
        else:
            encoded = [self._backend.encode(text, add_special_tokens=False) for text in texts]
        return {"input_ids": [each.ids for each in encoded]}

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """The id of a token, None for one that the vocabulary lacks."""
        return self._backend.token_to_id(token)

    @property
    def cls_token_id(self) -> int | None:
        """The id of `[CLS]`."""
        return self._id_of("cls_token")

    @property
    def sep_token_id(self) -> int | None:
        """The id of `[SEP]`."""
        return self._id_of("sep_token")

    @property
    def pad_token_id(self) -> int | None:
        """The id of `[PAD]`."""
        return self._id_of("pad_token")

    @property
    def unk_token_id(self) -> int | None:
        """The id of `[UNK]`."""
        return self._id_of("unk_token")

    def _id_of(self, name: str) -> int | None:
        token = self._special.get(name)
        return None if token is None else self.convert_tokens_to_ids(token)


def is_plain(folder: Path) -> bool:
    """Returns whether the model and the tokenizer in `folder` are ones that this module computes."""
    if not all((folder / name).is_file() for name in (WEIGHTS_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE)):
        return False
    model, tokenizer = _read(folder / CONFIG_FILE), _read(folder / TOKENIZER_CONFIG_FILE)
    tokens = (tokenizer.get(f"{name}_token") for name in ("cls", "sep", "pad", "unk"))
    return (
        (model.get("model_type"), model.get("hidden_act")) == ("bert", "gelu")
        and model.get("position_embedding_type", "absolute") == "absolute"
        and not (model.get("is_decoder") or model.get("add_cross_attention"))
        and tokenizer.get("tokenizer_class") in TOKENIZERS
        and all(token is None or isinstance(token, str) for token in tokens)
    )


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))
