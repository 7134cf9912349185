"""The arguments of transformers' Trainer that all of our trainings share."""

from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import TrainingArguments

from multiview.config import GeneratorTraining, Train

LOG_STEPS = 10
"""Steps between logged losses."""

Arguments = TypeVar("Arguments", bound=TrainingArguments)


def shared_arguments(
    kind: type[Arguments], settings: Train | GeneratorTraining, folder: Path, **own: Any
) -> Arguments:
    """Returns arguments of a `kind` for our settings; `own` are those of one training alone."""
    has_gpu = torch.cuda.is_available()
    arguments = kind(
        output_dir=str(folder),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        optim="adamw_torch_fused",
        bf16=settings.precision == "bfloat16",
        use_cpu=not has_gpu,
        seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=has_gpu,
        logging_strategy="steps",
        logging_steps=LOG_STEPS,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=settings.checkpoint_steps,
        save_total_limit=1,
        disable_tqdm=True,
        report_to="none",
        log_level="error",
        **own,
    )
    # One process drives one GPU: DataParallel would tear the in-batch negatives apart, and enlarge the batch that is set.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments
