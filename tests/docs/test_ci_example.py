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
GUIDE = (ROOT / "docs" / "cluster.md").read_text()
ON_ONE_MACHINE = GUIDE.partition("## On one machine")[2].partition("\n## ")[0]


class Strict(yaml.SafeLoader):
    """YAML whose mappings name each key once, and whose `on` is a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(names) == len(set(names)), f"a key is there twice: {names}"
        return super().construct_mapping(node, deep)


Strict.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
WORKFLOW = yaml.load(TEXT, Strict)
(JOB,) = WORKFLOW["jobs"].values()
SCRIPTS: dict[str, str] = {step["name"]: step["run"] for step in JOB["steps"] if "run" in step}


def commands(beginning: str, text: str) -> list[str]:
    """The commands that begin so, one line each, without what they are piped to."""
    joined = re.sub(r"\\\n\s*", "", text)
    return re.findall(rf"^\s*({re.escape(beginning)}[^|&\n]*)", joined, re.M)


def test_it_is_a_workflow():
    assert set(WORKFLOW) == {"name", "on", "permissions", "concurrency", "env", "defaults", "jobs"}
    assert set(JOB) == {"runs-on", "timeout-minutes", "steps"}
    for step in JOB["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert set(step) <= {"name", "if", "uses", "with", "run"}
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d[\d.]*", step.get("uses", "a/b@v1")), step
    assert WORKFLOW["defaults"]["run"]["shell"] == "bash", (
        "else the end of a pipe hides that its start failed"
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_is_one_of_bash(name):
    subprocess.run(["bash", "-n"], input=SCRIPTS[name], text=True, check=True)


def test_the_commands_are_there():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    made = commands("make ", "\n".join(SCRIPTS.values()))
    assert len(made) == 2
    for line in made:
        target = line.split()[1]
        assert target in targets or ("image-%" in (ROOT / "Makefile").read_text() and "image-" in target)
    ours = [line for script in SCRIPTS.values() for line in commands("python -m pipelines ", script)]
    assert [line.split()[3] for line in ours] == ["compile", "submit", "compare"]
    group: Any = typer.main.get_command(pipelines.app)
    for line in ours:
        words = shlex.split(line)[3:]
        known = {flag for parameter in group.commands[words[0]].params for flag in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
    (submitted,) = [shlex.split(line) for line in ours if " submit " in line]
    validate(gather(submitted[submitted.index("--preset") + 1], []))


def test_each_system_of_the_run_has_its_row(tmp_path):
    """Of its own: `snippet-means` is in the name of another row too."""
    (preset,) = re.findall(r"submit comparison --preset (\w+)", TEXT)
    nodes = PIPELINES["comparison"](gather(preset, [])).nodes
    systems = {str(path).partition("/")[0] for path in nodes if str(path).endswith("/evaluate")}
    (look,) = [line for line in SCRIPTS["The run's figures"].splitlines() if "figures.txt; done" in line]
    assert set(re.findall(r"for system in (.+?); do", look)[0].split()) == systems
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

    blocks = "".join(re.findall(r"^```\n(.*?)^```", ON_ONE_MACHINE, re.M | re.S))
    scripts = "\n".join(SCRIPTS.values())
    done = {plain(line) for start in ("kubectl ", "kind load ") for line in commands(start, scripts)}
    documented = [plain(line) for start in ("kubectl ", "kind load ") for line in commands(start, blocks)]
    assert len(documented) > 8
    assert set(documented) <= done
    for name in ("PIPELINE_VERSION", "MULTIVIEW_PROFILES", "MULTIVIEW_CPU_IMAGE"):
        (value,) = re.findall(rf"export {name}=(\S+)", blocks)
        assert WORKFLOW["env"][name] == value
    for applied in re.findall(r"kubectl apply -k manifests/(\S+)", scripts):
        assert applied in BUILT


BLOCKS = re.findall(r"^```\n(.*?)^```", ON_ONE_MACHINE, re.M | re.S)
FORWARDING = [text for text in (*SCRIPTS.values(), *BLOCKS) if re.search(r" port-forward .*&$", text, re.M)]


@pytest.mark.parametrize("script", FORWARDING)
def test_a_port_is_forwarded_before_it_is_used(script):
    assert "sleep" not in script
    lines = script.splitlines()
    for number, line in enumerate(lines):
        if found := re.search(r" port-forward service/\S+ (\d+) &$", line):
            waits = [n for n, other in enumerate(lines) if other.endswith(f"http://localhost:{found[1]}")]
            (used,) = [n for n, other in enumerate(lines) if other.lstrip().startswith("python -m pipelines")]
            assert waits and number < waits[0] < used


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl on the PATH")
def test_the_wait_for_a_port_ends_when_it_answers_and_not_before():
    """Whatever is answered: a bucket refuses who brings no key."""
    waits = {line.strip() for text in FORWARDING for line in text.splitlines() if "localhost:8333" in line}
    (wait,) = [line for line in waits if line.startswith("curl ")]
    port = free_port()
    command = wait.replace("8333", str(port))
    assert subprocess.run(shlex.split(command.replace("--retry 60", "--retry 1"))).returncode != 0
    waiting = subprocess.Popen(shlex.split(command))
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=1.5)
    refusing = type("Refusing", (BaseHTTPRequestHandler,), {"do_GET": lambda self: self.send_error(403)})
    with answering(ThreadingHTTPServer(("127.0.0.1", port), refusing)):
        assert waiting.wait(timeout=30) == 0


def test_it_says_that_nobody_has_run_it():
    assert "never run by us" in TEXT
