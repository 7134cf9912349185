"""Settings as text, as `--set` takes them."""

import pytest

from multiview.config.overrides import Overrides, gather, parse_settings


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", []),
        ("train.epochs=3", ["train.epochs=3"]),
        (" train.epochs=3 ;\n\n mining.depth=50;", ["train.epochs=3 ;", "mining.depth=50;"]),
        (
            "corpus.columns={id: pid, text: 'a;b'}; bm25.b=0.5",
            ["corpus.columns={id: pid, text: 'a;b'}", "bm25.b=0.5"],
        ),
    ],
)
def test_settings_are_separated_by_lines_or_semicolons(text, settings):
    expected: Overrides = gather(None, [setting.strip(" ;") for setting in settings])
    assert parse_settings(text) == expected
