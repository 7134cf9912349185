"""The objects that `make lint` gives to Kubeflow Trainer's and Argo's own classes."""

import jsonschema
import pytest

from multiview.config import Pod
from tests.fixtures.cluster_api import SCHEMA
from tests.fixtures.manifest_schemas import SCHEMAS, validate
from tests.manifests.apis import POD, altered, objects

OF_KFP = {"parallel_shards", "retries", "backoff_seconds"}
"""Settings that KFP has of tasks, and a TrainJob has none of."""
DEFAULTS = {"cpu", "memory", "gpu_type", "timeout_hours"}
"""Settings that every TrainJob has."""


def test_a_trainjob_is_checked_with_every_setting_of_a_pod():
    assert set(POD) == set(Pod.model_fields) - OF_KFP - DEFAULTS
    defaults = Pod().model_dump()
    assert not [
        name for name, value in Pod(**POD).model_dump().items() if name in POD and value == defaults[name]
    ]


def schema_allows(each: dict) -> None:
    if each["kind"] == "TrainJob":
        jsonschema.validate(each, SCHEMA)
    else:
        validate(each)


def test_the_schemas_written_by_hand_say_the_same_of_them():
    given = objects()
    assert {each["kind"] for each in given} == {"TrainJob", "CronWorkflow"}
    for each, wrong in zip(given, altered(given), strict=True):
        schema_allows(each)
        with pytest.raises(jsonschema.ValidationError):
            schema_allows(wrong)


def test_every_schema_is_said_to_be_a_subset():
    told = (SCHEMAS / "README.md").read_text()
    for file in SCHEMAS.glob("*.json"):
        kind = file.name.partition(".")[0]
        assert kind in told.lower()
    assert "trainjob.schema.json" in told
