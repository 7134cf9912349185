"""LoRA (Hu et al., ICLR 2022) by peft: low-rank adapters are trained in place of an encoder's own weights.

Each linear layer computes W + (alpha / r) B A. W is frozen, and B starts at zero, so that training starts from the base.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from safetensors.torch import save_file

from multiview import names
from multiview.config import Train
from multiview.errors import InputError
from multiview.model.base_model.loading import LoadedModel

ALPHA_PER_RANK = 2
"""Alpha as a multiple of the rank r."""


def check_peft(settings: Train) -> None:
    """Raises InputError where LoRA is set and peft is not installed."""
    if settings.lora_rank and find_spec("peft") is None:
        raise InputError(
            f"train.lora_rank: {settings.lora_rank} needs peft: pip install '{names.DISTRIBUTION}[lora]', or set it to 0"
        )


def with_adapter(encoder: LoadedModel, rank: int, trained_tokens: Sequence[int]) -> LoadedModel:
    """Returns an encoder with frozen weights, to train a random adapter of `rank` on its linear layers
    and the embeddings of the tokens with ids `trained_tokens`, and nothing else."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank,
        lora_alpha=ALPHA_PER_RANK * rank,
        target_modules="all-linear",
        trainable_token_indices=list(trained_tokens) or None,
    )
    adapted = get_peft_model(encoder, config)
    # Without a temporary folder's name and the order of a set, equal trainings write equal files.
    config.base_model_name_or_path = None
    config.target_modules = sorted(config.target_modules or [])
    return adapted


def save_adapter(encoder: LoadedModel, folder: Path) -> None:
    """Writes an encoder's adapter in the form that peft loads onto the encoder that training started from."""
    from peft import get_peft_model_state_dict

    encoder.active_peft_config.save_pretrained(folder)
    save_file(
        get_peft_model_state_dict(encoder, save_embedding_layers=False), folder / "adapter_model.safetensors"
    )
