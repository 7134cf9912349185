"""What a GPU works on imports without the libraries of other rooms, as on a bare machine or in a small image."""

import subprocess
import sys

ELSEWHERE = (
    *("mlflow", "faiss", "kfp", "bm25s", "Stemmer", "nltk", "ijson", "ir_measures", "pytrec_eval", "gcsfs"),
    *(
        "fastapi",
        "starlette",
        "uvicorn",
        "typer",
        "datasets",
        "sentencepiece",
        "rouge_score",
        "backports.zstd",
    ),
)
"""Libraries that are imported only where they are used."""
MODULES = (
    "multiview.steps.table",
    "multiview.model.encoder",
    "multiview.encoding.encode",
    "multiview.training.train",
    "multiview.index.build",
    "multiview.index.view_index",
    "multiview.negatives.mining",
    "multiview.negatives.cross_encoder",
    "multiview.evaluation.evaluate",
    "multiview.evaluation.analyses.run",
)
BARE = f"""
import sys
from importlib import import_module
for name in {ELSEWHERE}:
    sys.modules[name] = None  # no spec is found, and an import fails
for module in {MODULES}:
    import_module(module)
"""


def test_what_a_gpu_works_on_needs_few_libraries():
    """All in one process: one cannot bring another what none may import."""
    subprocess.run([sys.executable, "-c", BARE], check=True)
