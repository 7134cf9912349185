"""Coverage-guided fuzzing of a reader, by atheris: `python -m tests.bad_input.coverage_guided NAME -runs=1000`.

NAME is one of `tests.bad_input.readers.SEEDS`; further words are libFuzzer's options. The process fails with the input that
made the reader raise anything but an InputError.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

atheris: Any = import_module("atheris")

with atheris.instrument_imports(include=["multiview.data", "ijson", "csv", "json"]):
    from tests.bad_input.readers import SEEDS, WORDS, read


def main() -> None:
    name, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "corpus").mkdir()
        (folder / "corpus" / "seed").write_bytes(SEEDS[name])
        words = ('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in WORDS if len(word) < 60)
        (folder / "words").write_text("".join(words))
        options = [f"-dict={folder / 'words'}", "-max_len=4096", "-rss_limit_mb=4096", *options]
        atheris.Setup(
            [sys.argv[0], *options, str(folder / "corpus")], lambda content: read(folder, name, content)
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
