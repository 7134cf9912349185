"""API keys of a server: where they come from."""

import pytest

from multiview.errors import InputError
from multiview.serving.keys import read_keys


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    monkeypatch.delenv("MULTIVIEW_API_KEYS", raising=False)


def test_keys_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    assert read_keys(None) == []
    monkeypatch.setenv("MULTIVIEW_API_KEYS", " one\ttwo\n")
    assert read_keys(None) == ["one", "two"]
    (tmp_path / "keys").write_text("# of the team\n three \n\nfour\n")
    assert read_keys(tmp_path / "keys") == ["three", "four"]


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_variable_is_refused(monkeypatch, blank):
    """And never means that everybody may ask, as where a secret is empty."""
    monkeypatch.setenv("MULTIVIEW_API_KEYS", blank)
    with pytest.raises(InputError, match="MULTIVIEW_API_KEYS: there is no key in it; .* unset"):
        read_keys(None)


@pytest.mark.parametrize("content", ["", "# one\n", "ключ\n", "one two\n", b"\xff"])
def test_a_file_without_a_usable_key_is_refused(tmp_path, content):
    """And never means that everybody may ask."""
    (tmp_path / "keys").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match="--api-keys .*keys: (there is no key|key 1 has|not UTF-8)") as error:
        read_keys(tmp_path / "keys")
    assert "two" not in str(error.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_keys(tmp_path / "none")
