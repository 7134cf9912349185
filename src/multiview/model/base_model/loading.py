"""Models and tokenizers as transformers loads them, and the viewer tokens that are added to them."""

import contextlib
import math
import re
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers
from torch import Tensor, nn

from multiview.config import Model
from multiview.errors import InputError
from multiview.model.base_model.files import BASE, NEEDED, PICKLED, SAFETENSORS
from multiview.model.layouts.base import CLS_FIRST, SNIPPET_MEAN, LoadedModel, PreTrainedTokenizer

VIEWER_STD = 0.02
"""Standard deviation of new tokens' embeddings (BERT's own initialisation)."""
_NUMBER = re.compile(r"\d+")
_LAYER = re.compile(r".*?#\.")
"""The beginning of a weight's name up to its layer's number, after `#` has replaced each `_NUMBER`."""
_BUFFERS = ("inv_freq", "position_ids", "masked_bias", "attn.bias")
"""Name endings of buffers that older versions of transformers saved beside the weights."""
ALMOST = 0.96
"""Smallest share of a model's embeddings for which its tokenizer has tokens; some models have spare embeddings."""
UNKNOWN = 0.1
"""Share of unknown tokens above which a base does not suit a corpus."""
FIRST = 100
"""Number of texts in which unknown tokens are counted."""
_ONE_AT_A_TIME = threading.Lock()
"""Held while transformers loads a model, which changes torch's default dtype and initialisation for all threads."""


def load_encoder(folder: Path, dtype: torch.dtype, base: str | None = None) -> LoadedModel:
    """Returns a model without its pooler, whose unused parameters would stop distributed training.

    Raises InputError as `load_model` does; the error calls the model `base`, or by default its folder.
    """
    from transformers import AutoModel

    # transformers uses torch's attention where it supports that for the model: not for MPNet and DeBERTa.
    encoder = load_model(AutoModel, folder, BASE, base or str(folder), dtype, unused=("pooler.",))
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = nn.Identity()  # some models call it
    if encoder.config.is_encoder_decoder:  # as its type says where its config.json does not
        raise InputError(f"{BASE}: {base or folder} is an encoder-decoder; give {NEEDED[BASE]}")
    low, high = embedding_matrix(encoder).aminmax()
    if low == high:
        raise InputError(
            f"{BASE}: {base or folder} has word embeddings that are all {low}; give {NEEDED[BASE]}"
        )
    # Otherwise the first batch of short texts switches to this, for all that follow.
    if encoder.config.model_type == "big_bird":
        encoder.config.attention_type = "original_full"
        encoder.set_attention_type("original_full")
    return encoder


def load_model(
    kind: Any, folder: Path, setting: str, base: str, dtype: torch.dtype, unused: tuple[str, ...] = ()
) -> LoadedModel:
    """Returns the model that one of transformers' `Auto` classes loads from a folder, in evaluation mode.

    Raises InputError, which names `setting` and calls the model `base`, unless all weights are finite and as saved: no
    random ones, except for names that begin with `unused`, and no saved layer left out.
    """
    options = {
        "use_safetensors": any(folder.glob(SAFETENSORS)),
        "weights_only": True,  # so that a pickle runs no code
        "output_loading_info": True,
        "ignore_mismatched_sizes": True,
    }
    model, notes = load_pretrained(kind, folder, f"{setting}: cannot load {base}", dtype=dtype, **options)
    for file in () if options["use_safetensors"] else folder.glob(PICKLED):
        for name, weight in torch.load(file, map_location="meta", weights_only=True).items():
            if name.endswith("weight") and not weight.is_floating_point():
                raise InputError(
                    f"{setting}: {base} is quantised ({name} is {weight.dtype}); give the model in float32 or bfloat16"
                )
    for problem in _problems(model, notes, unused):
        raise InputError(f"{setting}: {base} {problem}; give {NEEDED[setting]} as save_pretrained writes it")
    # Its makers' choices of what a forward pass returns, of which saving refuses the first.
    model.config.update({"output_attentions": False, "return_dict": True})
    return model.eval()


def _problems(model: LoadedModel, notes: dict[str, Any], unused: tuple[str, ...]) -> Iterator[str]:
    """Yields what is wrong with a model's weights, from transformers' `notes` on loading it."""
    weights, unexpected = model.state_dict(), sorted(notes["unexpected_keys"])
    shapes = {name: [list(saved), list(made)] for name, saved, made in notes["mismatched_keys"]}
    for name, weight in weights.items():
        if name in shapes:
            yield "has {} of shape {} where its config.json means {}".format(name, *shapes[name])
        elif name in notes["missing_keys"] and not name.startswith(unused):
            others = [key for key in unexpected if key.endswith(name)] + unexpected
            yield f"has no weights for {name}" + (f", but for {others[0]}" if others else "")
        elif weight.is_floating_point() and not torch.stack(weight.aminmax()).isfinite().all():
            yield f"has NaN or infinity in {name}"
    prefix = f"{model.base_model_prefix}."
    lists = (f"{name}.0." for name, module in model.named_modules() if isinstance(module, nn.ModuleList))
    numbered = (_LAYER.match(_NUMBER.sub("#", name.removeprefix(prefix))) for name in (*weights, *lists))
    layers = {match[0] for match in numbered if match}
    for key in unexpected:
        inner = _LAYER.match(_NUMBER.sub("#", key.removeprefix(prefix)))
        if inner and inner[0] in layers and not key.endswith(_BUFFERS):
            yield f"has weights for {key}, which its config.json leaves out"


def load_tokenizer(
    folder: Path, base: str | None = None, setting: str = BASE, model: LoadedModel = None
) -> PreTrainedTokenizer:
    """Returns a model's tokenizer. A tokenizer without a padding token pads with the one that ends a text.

    Raises InputError as `load_encoder` does; also if the folder holds no vocabulary, if the tokenizer is too small for
    `model`, or if `model` has no embedding for a token that a text may contain.
    """
    from transformers import AutoTokenizer

    name = f"{setting}: {base or folder}"
    tokenizer = load_pretrained(AutoTokenizer, folder, f"{name}: cannot load its tokenizer")
    if not isinstance(longest := tokenizer.model_max_length, int | float) or not longest >= 8:
        raise InputError(
            f"{name} has a tokenizer with model_max_length {longest!r}; mend it, or leave it out"
        )
    needed = [tokenizer.vocab_files_names.get(key) for key in ("vocab_file", "merges_file")]
    whole = [*folder.glob("tokenizer.json"), *folder.glob("*.model")]
    if not whole and not all((folder / file).is_file() for file in needed if file):
        raise InputError(f"{name} holds no vocabulary of its tokenizer; save its tokenizer there too")
    if not set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens):
        raise InputError(f"{name} has a tokenizer that knows no word; give the one that belongs to it")
    if tokenizer.pad_token is None:  # any will do, because padding is masked
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.sep_token
    if tokenizer.pad_token is None:
        raise InputError(f"{name} has a tokenizer without a padding token; set its pad_token and save it")
    used = {getattr(tokenizer, f"{role}_token_id") for role in ("cls", "sep", "eos", "pad")}
    unused = {id_ for id_, token in tokenizer.added_tokens_decoder.items() if token.special} - used
    rows = math.inf if model is None else len(embedding_matrix(model))
    if len(tokenizer) < ALMOST * rows < math.inf:
        raise InputError(
            f"{name} has {rows} embeddings, and its tokenizer {len(tokenizer)} tokens; give the tokenizer that belongs to it"
        )
    for token, id_ in tokenizer.get_vocab().items():
        if id_ >= rows and id_ not in unused:
            raise InputError(
                f"{name} has {rows} embeddings, and its tokenizer gives {token!r} the id {id_}; give the tokenizer that belongs "
                "to it, or call resize_token_embeddings and save both"
            )
    return tokenizer


def unknown_text(tokenizer: PreTrainedTokenizer, base: str, texts: Iterable[str]) -> str:
    """Returns a warning if a base has no tokens for more than `UNKNOWN` of the `FIRST` texts, as of another script; else an
    empty text."""
    first = list(islice(texts, FIRST))
    read = tokenizer(first, add_special_tokens=False, truncation=True, max_length=512)["input_ids"]
    ids = [id_ for each in read for id_ in each]
    share = ids.count(tokenizer.unk_token_id) / len(ids) if ids else 1.0
    if share <= UNKNOWN:
        return ""
    return (
        f"{BASE}: {base} has no tokens for {share:.0%} of the first passages, which it reads as {tokenizer.unk_token}; give a base "
        "for the corpus's language"
    )


def lower_cased(tokenizer: PreTrainedTokenizer) -> PreTrainedTokenizer:
    """Returns a fast tokenizer that lower-cases texts first. It is of the plain class: those that are named after models
    make their normalizer anew on loading, whatever was saved."""
    from transformers import PreTrainedTokenizerFast

    normalise_first(tokenizer.backend_tokenizer, normalizers.Lowercase())
    special = {name: token for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    kept = {
        name: getattr(tokenizer, name) for name in ("model_max_length", "padding_side", "truncation_side")
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, **kept, **special)


def normalise_first(tokenizer: Tokenizer, normalizer: normalizers.Normalizer) -> None:
    """Makes a fast tokenizer pass texts through `normalizer` before its own normalisation."""
    own: Any = tokenizer.normalizer
    made: Any = normalizers.Sequence([normalizer, own]) if own else normalizer
    tokenizer.normalizer = made


def load_pretrained(kind: Any, folder: Path, problem: str, **options: object) -> Any:
    """Returns what one of transformers' `Auto` classes loads from a folder, without running code from there.

    Raises InputError with `problem`, which names the setting and the model, where it cannot be loaded.
    """
    try:
        with _ONE_AT_A_TIME, quiet():
            return kind.from_pretrained(folder, trust_remote_code=False, **options)
    except Exception as error:  # tokenizers raises Exception itself
        reason = " ".join(str(error).split()) or type(error).__name__
        if "weights_only" in reason:  # torch's advice is to read it all the same
            reason = "its weights are a pickle of more than tensors, and nothing else is read from one"
        raise InputError(f"{problem}: {reason}; save it anew with save_pretrained") from error


def first_position(encoder: LoadedModel) -> int:
    """Returns the position id of the first token: 0, or the one after padding's where padding has its own (RoBERTa)."""
    embeddings = getattr(getattr(encoder.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return 0 if padding is None else padding + 1


def max_positions(encoder: LoadedModel) -> int | None:
    """Returns the maximum number of tokens per sequence; None if the model has no limit."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    return positions - first_position(encoder) if positions and positions > 0 else None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences transformers' progress bars and notes, such as the one about the missing pooler."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def add_viewers(
    encoder: LoadedModel, tokenizer: PreTrainedTokenizer, tokens: list[str], settings: Model
) -> None:
    """Adds the viewer tokens that are missing, with embeddings drawn from N(0, 0.02) (MVR 3.2) or around `[CLS]`; zero
    where they start from their snippets (`add_snippet_means`).

    With `cls-first`, all but those that begin a question and, without a prompt, a passage also move to the first position.
    The embeddings that transformers draws on resizing, around the mean, would be almost equal.
    """
    if settings.init in ("cls", CLS_FIRST) and tokenizer.cls_token_id is None:
        raise InputError(f"model.init: {settings.init}, but the base's tokenizer has no [CLS]; use random")
    known = tokenizer.get_vocab()
    new = [token for token in tokens if token not in known]
    tokenizer.add_tokens(new, special_tokens=True)
    taken = {id_: token for token, id_ in known.items()}
    for token, id_ in zip(new, tokenizer.convert_tokens_to_ids(new), strict=True):
        if id_ in taken:
            raise InputError(
                f"{BASE}: {settings.base}: {token} would have the id of {taken[id_]!r}: its tokenizer has a token twice, or skips "
                "an id; save it anew without, or use an architecture without viewer tokens"
            )
    rows = max(tokenizer.get_vocab().values()) + 1
    if rows > len(embedding_matrix(encoder)):
        with torch.random.fork_rng(devices=[]):  # special tokens that the base left out may get rows too
            torch.manual_seed(settings.seed)
            encoder.resize_token_embeddings(rows, mean_resizing=False)
    weight = embedding_matrix(encoder)
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for token in new:
            embedding = torch.randn(weight.shape[1], generator=generator) * VIEWER_STD
            if settings.init in ("cls", CLS_FIRST):
                embedding += weight[tokenizer.cls_token_id]
                if settings.init == CLS_FIRST and token not in tokens[: 1 if settings.passage_prompt else 2]:
                    embedding += _to_first_position(encoder, settings)
            elif settings.init == SNIPPET_MEAN:
                embedding.zero_()
            weight[tokenizer.convert_tokens_to_ids(token)] = embedding


def _to_first_position(encoder: LoadedModel, settings: Model) -> Tensor:
    """What to add to a token's embedding so that at a passage's positions it is on average read as at the first one."""
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if table is None or table.weight.shape[1] != embedding_matrix(encoder).shape[1]:
        raise InputError(
            f"model.init: {CLS_FIRST} needs a base that adds embeddings of positions to those of words; use cls"
        )
    first = first_position(encoder)
    positions = table.weight[first : first + settings.passage_length]
    return positions[0] - positions[1:].mean(dim=0)


def embedding_matrix(encoder: LoadedModel) -> Tensor:
    """Returns the word embeddings [vocabulary, D] of one encoder of a bi-encoder. Raises InputError if it has none."""
    try:
        return encoder.get_input_embeddings().weight
    except (NotImplementedError, AttributeError) as error:
        line = f"{BASE}: a {type(encoder).__name__} has no word embeddings; give {NEEDED[BASE]}"
        raise InputError(line) from error
