"""A small world to run pipelines in: corpus, base model, preset, store."""

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from multiview.artifacts.store import open_store
from multiview.steps.backends import fork_server
from multiview.steps.runs import StepState, read_states
from tests.corpus import squad_corpus
from tests.servers import new_database
from tests.tiny import tiny_bert

ROOT = Path(__file__).parents[2]


@cache
def shared_forks() -> dict[str, str]:
    """The environment of commands whose steps share one process that has imported torch: these tests' own."""
    lasting = contextlib.ExitStack()
    atexit.register(lasting.close)
    log = Path(lasting.enter_context(tempfile.TemporaryDirectory())) / "forks.log"
    lasting.enter_context(fork_server.offer(log))
    address = os.environ.pop(fork_server.FORKS, None)
    return {fork_server.FORKS: address} if address else {}


@dataclass
class World:
    """Runs the command line as a user would, in a process of its own."""

    folder: Path
    store: str
    environment: dict[str, str]

    @classmethod
    def make(cls, folder: Path, store: str | None = None, **environment: str) -> "World":
        train, dev = squad_corpus(folder / "corpus")
        settings = {
            "corpus": {"source": [str(train), str(dev)]},
            "questions": {"source": str(train), "dev_source": str(dev)},
            "bm25": {"depth": 8},
            "model": {
                "base": str(tiny_bert(folder / "base")),
                "views": 4,
                "passage_length": 64,
                "question_length": 24,
            },
            "train": {
                "batch_size": 8,
                "epochs": 2,
                "warmup_steps": None,
                "learning_rate": 1e-3,
                "checkpoint_steps": 4,
                "log_steps": 1,
            },
            "mining": {"depth": 20, "number": 4},
            "encode": {"batch_tokens": 512},
            "evaluation": {"depth": 20},
            "comparison": {"systems": {"mvr": {"model": {"architecture": "mvr"}}}},
        }
        (folder / "tiny.yaml").write_text(yaml.safe_dump(settings))
        new_database(folder)
        return cls(folder, store or str(folder / "store"), environment)

    def command(self, *words: str) -> list[str]:
        tracking = ["--tracking-uri", self.tracking] if words[0] in ("run", "rerun") else []
        store = ["--store", self.store] if words[0] in ("run", "rerun") else []
        preset = ["--preset", str(self.folder / "tiny.yaml")] if words[0] in ("run", "compile") else []
        return [sys.executable, "-m", "pipelines", *words, *preset, *store, *tracking]

    @property
    def tracking(self) -> str:
        return f"sqlite:///{self.folder}/mlflow.db"

    def start(self, *words: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*words),
            cwd=ROOT,
            env={**os.environ, **shared_forks(), **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, *words: str, status: int = 0, **environment: str) -> str:
        """What the command prints; it must end with `status`."""
        process = self.start(*words, **environment)
        output, _ = process.communicate(timeout=600)
        assert process.returncode == status, output
        return output

    def runs(self) -> list[str]:
        return open_store(self.store).folders("runs")

    def states(self, run: str) -> dict[str, StepState]:
        return {state.path: state for state in read_states(open_store(self.store), run)}

    def log(self, run: str) -> Path:
        return Path(self.store) / "runs" / run / f"{run}.log"
