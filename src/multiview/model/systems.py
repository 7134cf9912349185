"""The settings of each system that a run trains: its overrides over the defaults of its architecture.

A stage of training may override more of them. Nothing in this module needs torch.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import stage
from multiview.config import Config, Model, Train
from multiview.config.overrides import PLATFORM_SECTIONS, Overrides, merge, validate
from multiview.errors import InputError, naming
from multiview.model.base_model.checkpoint import SETTINGS_FILE
from multiview.model.layouts import architecture, check

SHARED = {"corpus", "questions", "bm25", "generation", "make_questions", "evaluation", "comparison"}
"""Sections that are equal for all systems of a comparison."""

WITHOUT_MODEL = ("bm25", "doct5query")
"""Names of a comparison's rows that are not trained systems."""

STAGES = ("warm_up", "round_two")
"""Settings of section train that hold the differences of one stage of training."""

NOT_IN_WARM_UP = Train().model_dump(
    include={"validate_steps", "patience", "validation_questions", "validation_passages"}
    | {"distill_weight", "negatives", "positive_passage", "in_sequence_weight"}
)
"""Settings of section train that the warm-up does not read, with their defaults: it has no validation, which asks real
questions, no answers, no hard negatives, no teacher, which scores them, and one passage per query."""

SHAPE = {"rounds", "model", "start_from", *STAGES}
"""Settings of section train that are equal for all stages."""


def shared(overrides: Overrides) -> Config:
    """Returns the config that the systems of a comparison share, or that a refresh reads, which trains none: the
    overrides over their architecture's defaults, not checked as a system. Raises InputError with the name of a wrong
    setting."""
    return validate(merge(architecture(validate(overrides).model.architecture).defaults, overrides))


def resolve(overrides: Overrides) -> Config:
    """Returns the config of one system: the overrides over the defaults of its architecture, with the settings of the model
    at `train.model` where there is one.

    Raises InputError with the name of a wrong setting, and for a `train.model` that is no model or does not fit them.
    """
    config = shared(overrides)
    check(config.model, config.train)
    if address := config.train.model:
        saved = _saved_settings(address)
        check(saved, config.train)
        check_saved(saved, config.model, f"train.model: {address}")
        config = config.model_copy(update={"model": saved.model_copy(update={"base": config.model.base})})
    check_first_views(config, config.model)
    return config


@cache
def _saved_settings(address: str) -> Model:
    """The settings of the model at `train.model`, which never changes."""
    return load_settings(stage(*load_record(address, "train.model", names.MODEL), SETTINGS_FILE).path)


def check_first_views(config: Config, model: Model) -> None:
    """Raises InputError where `evaluation.views` does not suit the architecture of a model, its views or the index."""
    views = config.evaluation.views
    if views is None:
        return
    setting = f"evaluation.views: {views}"
    if not architecture(model.architecture).nested:
        raise InputError(
            f"{setting} needs an architecture whose first views stand for a passage, not architecture {model.architecture}; "
            "leave it out, or use meta"
        )
    if views > model.views:
        raise InputError(f"{setting}, but model.views is {model.views}; set it to {model.views} or less")
    if config.index.kind != "exact" or config.index.merge_views is not None:
        raise InputError(
            f"{setting} needs index.kind=exact and all views of a passage; leave one of them out"
        )


def load_settings(folder: Path) -> Model:
    """Returns the settings that a model was saved with. Raises InputError if `folder` holds no model."""
    path = folder / SETTINGS_FILE
    try:
        return Model(base="", **json.loads(path.read_text()))
    except FileNotFoundError:
        raise InputError(f"{folder} is not a model: there is no {SETTINGS_FILE} in it") from None
    except (ValueError, TypeError, ValidationError) as error:
        raise InputError(f"{path}: not the settings of a model ({str(error).splitlines()[0]})") from error


def check_saved(saved: Model, wanted: Model, subject: str) -> None:
    """Raises InputError where the settings `wanted` are neither the defaults nor those of the saved model, called
    `subject`. Not compared are `base`, which is not saved, and `seed`, which a study varies."""
    if saved.architecture != wanted.architecture:
        raise InputError(
            f"{subject} is a {saved.architecture} model: set model.architecture={saved.architecture}"
        )
    for name in ("question_prompt", "passage_prompt"):
        given, own = getattr(wanted, name), getattr(saved, name) or ""
        if given not in (None, own):
            raise InputError(f"model.{name}: {given!r}, but {subject} has {own!r}: leave it out")
    usual = Model.model_validate(architecture(saved.architecture).defaults.get("model", {}))
    for name in sorted(wanted.model_fields_set - {"base", "seed", "question_prompt", "passage_prompt"}):
        given, own = getattr(wanted, name), getattr(saved, name)
        cut = name.endswith("_length") and architecture(saved.architecture).as_base and given > own
        if given not in (own, getattr(usual, name)) and not cut:  # lengths are cut to the base's own
            raise InputError(f"model.{name}: {given}, but {subject} has {own}: set model.{name}={own}")


def resolve_systems(overrides: Overrides) -> dict[str, Config]:
    """Returns the config of each system of a comparison, by name. Raises InputError with the name of a wrong setting."""
    shared = {name: value for name, value in overrides.items() if name != "comparison"}
    config = validate(overrides)
    architecture(config.model.architecture)
    systems = config.comparison.systems
    if not systems:
        raise InputError("comparison.systems is empty: name at least one system")
    resolved = {}
    for name, system in systems.items():
        if not name.replace("-", "").replace("_", "").isalnum() or name in WITHOUT_MODEL:
            raise InputError(
                f"comparison.systems.{name}: use letters, digits, - and _, and not {' or '.join(WITHOUT_MODEL)}"
            )
        if shared_by_all := (SHARED | PLATFORM_SECTIONS) & set(system):
            raise InputError(
                f"comparison.systems.{name}: {', '.join(sorted(shared_by_all))} is the same for all systems; "
                "set it outside comparison.systems"
            )
        with naming(f"comparison.systems.{name}"):
            resolved[name] = resolve(merge(shared, system))
    return resolved


def fused_row(system: str) -> str:
    """Returns the name of a comparison's row that fuses a system with BM25."""
    return f"{system}-{WITHOUT_MODEL[0]}"


def fused_config(config: Config) -> Config:
    """Returns the config of a system fused with BM25: a hybrid search, without analyses, which are of the views alone."""
    search = config.search.model_copy(update={"mode": "hybrid"})
    evaluation = config.evaluation.model_copy(update={"analyses": ()})
    return config.model_copy(update={"search": search, "evaluation": evaluation})


def architecture_label(model: Model) -> str:
    """Returns the architecture's name, with the pooling where it is not the usual one: `camvr, pooling snippet`."""
    usual = model.pooling == Model().pooling or architecture(model.architecture).as_base
    return model.architecture if usual else f"{model.architecture}, pooling {model.pooling}"


def stage_settings(config: Config, stage: Literal["warm_up", "round_two"] | None) -> Config:
    """Returns the config of one stage of training: None is round one; later rounds have the settings of round two.

    Raises InputError with the name of a wrong setting.
    """
    one, overrides = config.train, config.model_dump(exclude_unset=True)
    for name in STAGES:
        overrides.get("train", {}).pop(name, None)
    changes: Mapping[str, object] = getattr(config.train, stage) if stage else {}
    if fixed := SHAPE & set(changes):
        raise InputError(
            f"train.{stage}: {', '.join(sorted(fixed))} cannot differ in a stage; set train.{min(fixed)}"
        )
    if stage == "warm_up":
        if wrong := NOT_IN_WARM_UP.keys() & set(changes):
            raise InputError(
                "train.warm_up: generated queries are neither validated on nor distilled, and have no answers or hard negatives; "
                f"set train.{min(wrong)} for the rounds"
            )
        given = overrides.get("train", {})
        changes = {**{name: value for name, value in NOT_IN_WARM_UP.items() if name in given}, **changes}
    with naming(f"train.{stage}"):
        config = validate(merge(overrides, {"train": changes}))
        check(config.model, config.train)
    two = config.train
    for name in ("batch_size", "negative_group"):
        if stage == "warm_up" and getattr(two, name) == 1:
            raise InputError(
                f"train.warm_up: {name}=1 leaves a query no negative to learn from; set train.warm_up.{name} higher"
            )
    if stage == "round_two" and two.start_from == "round_one" and two.validate_steps is not None:
        alike = one.validate_steps is not None and one.seed == two.seed
        if two.validation_questions > (one.validation_questions if alike else 0):
            raise InputError(
                "train.round_two: round one would train on questions that round two validates on; set validate_steps, "
                "seed and validation_questions for both rounds, or train.start_from=pretrained"
            )
    return config
