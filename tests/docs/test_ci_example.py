"""docs/examples/kubeflow-on-kind.yaml: what can be said of a workflow that only GitHub can run."""

import re
import shlex
import shutil
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import typer
import yaml

from multiview.config.overrides import gather, validate
from multiview.evaluation.tables import markdown_table
from multiview.plans import PIPELINES
from pipelines import __main__ as pipelines
from tests.fixtures.bucket import free_port
from tests.fixtures.overlays import BUILT
from tests.fixtures.project import ROOT
from tests.fixtures.servers import answering

TEXT = (ROOT / "docs" / "examples" / "kubeflow-on-kind.yaml").read_text()
GUIDE = (ROOT / "docs" / "cluster.md").read_text().partition("## On one machine")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```\n(.*?)^```", GUIDE, re.M | re.S)
WORKFLOW = yaml.safe_load(TEXT)
(JOB,) = WORKFLOW["jobs"].values()
SCRIPTS: dict[str, str] = {step["name"]: step["run"] for step in JOB["steps"] if "run" in step}


def commands(beginning: str, text: str) -> list[str]:
    """The commands that begin so, one line each, without what they are piped to."""
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(rf"^\s*({re.escape(beginning)}[^|&\n]*)", joined, re.M)


def test_each_script_is_one_of_bash_whose_pipes_fail_where_a_part_fails():
    assert WORKFLOW["defaults"]["run"]["shell"] == "bash"
    for name, script in SCRIPTS.items():
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0, name


def test_the_commands_are_there():
    scripts = "\n".join(SCRIPTS.values())
    targets = re.findall(r"^([\w%-]+):", (ROOT / "Makefile").read_text(), re.M)
    made = [line.split()[1].replace("image-cpu", "image-%") for line in commands("make ", scripts)]
    assert len(made) == 2 and set(made) <= set(targets)
    ours = [shlex.split(line)[3:] for line in commands("python -m pipelines ", scripts)]
    assert [name for name, *_ in ours] == ["compile", "submit", "compare"]
    group: Any = typer.main.get_command(pipelines.app)
    for name, *words in ours:
        known = {flag for parameter in group.commands[name].params for flag in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
    submitted = ours[1]
    validate(gather(submitted[submitted.index("--preset") + 1], []))


def test_each_system_of_the_run_has_its_row(tmp_path):
    """Of its own: `snippet-means` is in the name of another row too."""
    (preset,) = re.findall(r"submit comparison --preset (\w+)", TEXT)
    nodes = PIPELINES["comparison"](gather(preset, [])).nodes
    systems = {str(path).partition("/")[0] for path in nodes if str(path).endswith("/evaluate")}
    (look,) = [line for line in SCRIPTS["The run's figures"].splitlines() if "figures.txt; done" in line]
    for lost in [None, *systems]:
        table = markdown_table({system: {"mrr_at_10": 0.5} for system in systems - {lost}})
        (tmp_path / "figures.txt").write_text(table)
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", look], cwd=tmp_path, capture_output=True)
        assert (done.returncode == 0) == (lost is None), lost


def test_it_does_what_the_guide_says():
    """Each command by which the guide sets up one machine, with its own patience."""

    def plain(line: str) -> str:
        line = re.sub(r"--timeout=\w+|localhost/", "", line).replace('"', "").replace("\\", "")
        return " ".join(line.replace("$MULTIVIEW_CPU_IMAGE --name kind", "multiview-cpu:python3.11").split())

    blocks, scripts = "".join(BLOCKS), "\n".join(SCRIPTS.values())
    done, documented = (
        [plain(line) for start in ("kubectl ", "kind load ") for line in commands(start, text)]
        for text in (scripts, blocks)
    )
    assert len(documented) > 8 and set(documented) <= set(done)
    for name in ("PIPELINE_VERSION", "MULTIVIEW_PROFILES", "MULTIVIEW_CPU_IMAGE"):
        (value,) = re.findall(rf"export {name}=(\S+)", blocks)
        assert WORKFLOW["env"][name] == value
    assert set(re.findall(r"kubectl apply -k manifests/(\S+)", scripts)) <= set(BUILT)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl on the PATH")
def test_a_port_that_is_forwarded_is_waited_for_until_it_answers():
    """Whatever is answered: a bucket refuses who brings no key."""
    forwarding = [
        text for text in (*SCRIPTS.values(), *BLOCKS) if re.search(r" port-forward .*&$", text, re.M)
    ]
    waits = set()
    for script in forwarding:
        before, _, _ = script.partition("python -m pipelines")
        ports = re.findall(r" port-forward service/\S+ (\d+) &$", script, re.M)
        assert ports and re.findall(r"^ *curl .* http://localhost:(\d+)$", before, re.M) == ports
        waits |= set(re.findall(r"^ *(curl .* http://localhost:)\d+$", script, re.M))
    (wait,) = waits
    command = f"{wait}{(port := free_port())}"
    assert subprocess.run(shlex.split(command.replace("--retry 60", "--retry 1"))).returncode != 0
    waiting = subprocess.Popen(shlex.split(command))
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=1.5)
    refusing = type("Refusing", (BaseHTTPRequestHandler,), {"do_GET": lambda self: self.send_error(403)})
    with answering(ThreadingHTTPServer(("127.0.0.1", port), refusing)):
        assert waiting.wait(timeout=30) == 0
