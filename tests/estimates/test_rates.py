"""The table of rates: each with its source, and a user's over the package's."""

from pathlib import Path

import pytest

from multiview.errors import InputError
from multiview.estimates.rates import default_rates, read_rates


def test_every_rate_says_where_it_comes_from() -> None:
    table = default_rates()
    for name, rate in table.rates.items():
        assert rate.value > 0 and rate.unit, name
        assert rate.source.startswith(("measured", "assumed", "computed")), name
        assert not name.startswith("gpu_") or "not measured" in rate.source, name
    assert all("data sheet" in device.source for device in table.devices.values())


def test_given_rates_replace_those_of_the_package(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("rates: {disk_bytes: {value: 3, unit: bytes/s, source: mine}}")
    table = read_rates(file)
    assert table["disk_bytes"] == 3 and table["split_words"] == default_rates()["split_words"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "rates: {disk_byte: {value: 3, unit: x, source: y}}",
            "no rate 'disk_byte'; did you mean disk_bytes",
        ),
        ("rates: {disk_bytes: {value: 3}}", r"^--rates .*mine.yaml: rates.disk_bytes.unit is missing$"),
        (
            "rates: {disk_bytes: {value: 0, unit: x, source: y}}",
            r"^--rates .*mine.yaml: rates.disk_bytes.value: input should be greater than 0, not 0$",
        ),
        ("[", r"^--rates .*mine.yaml is not YAML"),
        ("- 3", r"^--rates .*mine.yaml: expected names with values$"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=line):
        read_rates(file)
    with pytest.raises(InputError, match="--rates"):
        read_rates(tmp_path / "gone.yaml")


def test_an_unknown_gpu_is_named_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="no GPU 'h10' in the table of rates; did you mean h100"):
        default_rates().device("h10")
