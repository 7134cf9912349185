"""A step's settings and the key of its outputs."""

from multiview.config import Config
from multiview.config.overrides import validate
from multiview.steps.table import STEPS


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
    assert set(vars(settings)) == {"train", "questions"}
