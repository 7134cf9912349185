"""A step's settings and the key of its outputs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from multiview.artifacts.record import Reference, load_reference
from multiview.artifacts.store import LocalStore
from multiview.config import Config, JsonObject
from multiview.config.overrides import validate
from multiview.errors import InputError
from multiview.steps.step import Step, StepInput
from multiview.steps.table import STEPS
from tests.fixtures.counting_step import COUNT, count, run, settings
from tests.fixtures.published import publish


def test_keys_hold_what_changes_an_output_and_nothing_else():
    step = STEPS["encode"]

    def key(**encode) -> str:
        return step.key(
            step.parse(step.configure(Config.model_validate({"encode": encode}))), {"model": "m"}, {}
        )

    assert key() == key(device="cuda") == key(compute="float32")
    assert len({key(), key(compute="autocast"), key(batch_tokens=512)}) == 3
    settings = step.parse(step.configure(Config()))
    assert step.key(settings, {"model": "m"}, {}) != step.key(settings, {"model": "n"}, {})


def test_the_steps_config_survives_its_json():
    config = validate({"train": {"epochs": 2, "warmup_steps": None, "temperature": {"clock": "progress"}}})
    settings = STEPS["train"].parse(STEPS["train"].configure(config))
    assert settings.train == config.train
    assert isinstance(settings.train.batch_size, int) and settings.train.warmup_steps is None
    assert set(vars(settings)) == {"train", "questions", "corpus"}


def test_settings_are_the_declared_ones_whole_or_single() -> None:
    given = Config.model_validate({"bm25": {"depth": 7, "k1": 1.5}, "corpus": {"shards": 3}})
    assert COUNT.configure(given) == '{"bm25":{"depth":7}}'
    whole = replace(COUNT, settings=("bm25",))
    assert json.loads(whole.configure(given)) == {"bm25": {"depth": 7, "k1": 1.5, "b": 0.4}}


def test_the_key_follows_name_version_settings_inputs_and_sources() -> None:
    def key(step: Step = COUNT, depth: int = 7, digest: str = "d", sources: JsonObject | None = None) -> str:
        return step.key(step.parse(settings(depth)), {"passages": digest}, sources or {})

    others = [
        key(replace(COUNT, name="other")),
        key(replace(COUNT, version=4)),
        key(depth=8),
        key(digest="e"),
        key(sources={"s": 2}),
    ]
    assert len({key(), *others}) == 6
    assert key() == key(replace(COUNT, function_path="another.module:function", gpu=True))


def test_digests_of_inputs_are_of_artifacts_or_of_the_one_file_that_is_read(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    records = [publish(store, key, key)[0] for key in ("one", "two")]
    one, two = (Reference.to(store, record) for record in records)
    listed = replace(
        COUNT, inputs=("passages", "parts", "known"), list_inputs=("parts",), unkeyed_inputs=("known",)
    )
    first, second = StepInput(one, store, records[0]), StepInput(two, store, records[1])
    given = {
        "passages": [first._replace(reference=one.model_copy(update={"file": "a.txt"}))],
        "parts": [second, first],
        "known": [second],
    }
    found = listed.input_digests(given)
    assert found == {
        "passages": records[0].file("a.txt").sha256,
        "parts": [records[1].digest, records[0].digest],
    }
    traced = replace(listed, traced_inputs=("parts",))
    keys = traced.input_digests({"parts": [second, first]})
    assert keys == {"parts": [f"{records[1].digest} two", f"{records[0].digest} one"]}


def test_a_step_reads_its_settings_and_none_whose_names_begin_alike() -> None:
    step = replace(COUNT, settings=("encode", "comparison.seed"))
    assert step.reads("encode.compute") and step.reads("encode") and step.reads("comparison.seed")
    assert (
        not step.reads("comparison.seeds_of") and not step.reads("comparison") and not step.reads("encoder")
    )


def test_a_record_has_the_key_of_its_step(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    made, _ = run(COUNT, store, "one two")
    (passages,) = made["counts"].inputs["passages"]
    _, record = load_reference(passages, "passages")
    inputs = {"passages": [StepInput(passages, store, record)]}
    assert COUNT.key_of(made["counts"].config, COUNT.input_digests(inputs), {}) == made["counts"].key
    later = replace(COUNT, version=4)
    assert run(later, store, "one two")[0]["counts"].key != made["counts"].key


def test_a_function_is_imported_only_when_it_is_asked_for() -> None:
    assert COUNT.function() is count
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        replace(COUNT, function_path="nowhere:nothing").function()


def test_sources_outside_the_inputs_are_fingerprinted_from_settings_or_the_store(tmp_path: Path) -> None:
    store, parsed = LocalStore(tmp_path), COUNT.parse(settings(7))
    assert COUNT.fingerprint(parsed, store) == {}
    of_settings = replace(COUNT, fingerprint_path="tests.fixtures.counting_step:fingerprint")
    assert of_settings.fingerprint(parsed, None) == {"source": 7}
    of_store = replace(COUNT, reads_store=True, fingerprint_path="tests.fixtures.counting_step:stored")
    store.create("seen/key/artifact.json", b"{}")
    assert of_store.fingerprint(parsed, store) == {"seen": ["key"]}
    assert of_store.fingerprint(parsed, None) == {}


def test_a_step_on_one_shard_reads_one_file_of_passages_and_queries() -> None:
    assert COUNT.sharded_inputs == ()
    assert replace(COUNT, sharded=True).sharded_inputs == ("passages",)
    assert replace(COUNT, sharded=True, inputs=("queries", "model", "passages")).sharded_inputs == (
        "passages",
        "queries",
    )


def test_a_setting_of_another_version_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^step count: there is no setting train\.workers in this version"):
        COUNT.parse('{"train": {"workers": 2}}')
    with pytest.raises(InputError, match=r"^step count: there is no setting gone\.for_good in this version"):
        COUNT.parse('{"gone": {"for_good": 2}}')
    told = json.loads(COUNT.configure(Config()))
    for section, values in told.items():
        for name in values:
            less = {**told, section: {other: values[other] for other in values.keys() - {name}}}
            with pytest.raises(InputError, match=rf"it is not told the setting {section}\.{name} in this"):
                COUNT.parse(json.dumps(less))
        with pytest.raises(InputError, match=rf"it is not told the setting {section}\."):
            COUNT.parse(json.dumps({other: told[other] for other in told.keys() - {section}}))
