"""Prints a run's results: its table, one question with the snippet that matched, and commands to continue with."""

import contextlib
import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from multiview import names
from multiview.artifacts.champions import current
from multiview.artifacts.record import Reference, load_record, read_record, split_address
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.cli.console import Console
from multiview.config import JsonObject
from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions
from multiview.data.reading.tables import Row
from multiview.errors import safe, without_secrets
from multiview.evaluation.files import METRICS_FILE, QUESTIONS_FILE, TABLE_FILE
from multiview.evaluation.tables import UNIT, asked_legend, count_generated, markdown_table, trained_legend
from multiview.metric_names import NDCG, short
from multiview.refresh.gate import TITLES
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, finished_outputs, read_run, read_states


def show_results(console: Console, states: list[StepState], tracking_uri: str | None) -> None:
    """Prints a run's results, if there are any, MLflow's page if it is known, and commands to continue with."""
    metrics = _metrics(states)
    if metrics:
        show_table(console, _table(states, metrics))
    promotion = _promotion(states)
    if promotion:
        _show_promotion(console, promotion)
    champion = promotion and promotion["champion"]
    indexes = [reference.address for reference in finished_outputs(states, names.INDEX).values()]
    evaluations = [state for state in states if state.step == "evaluate"]
    evaluated = {read.address: state for state in evaluations for read in state.inputs.get("index", ())}
    values = {address: metrics.get(_row(state), {}).get(NDCG, 0.0) for address, state in evaluated.items()}
    index = max(reversed(indexes), key=lambda address: values.get(address, -1.0), default=None)
    if promotion:  # refused, where there is no champion yet
        index = champion["index"]["address"] if champion else promotion["challenger"]
    example = evaluated.get(index or "") or (evaluations or [None])[-1]
    question = _show_example(console, example) if example else None
    # A rerun's table has rows of the earlier run, whose indexes are not among these.
    here = {_row(state) for state in states if names.EVALUATION in state.outputs}
    if example and values.get(index or "") and len(metrics) > 1 and metrics.keys() <= here and not promotion:
        console.print(f"Best index:   {_row(example)}, by {short(NDCG)}")
    if tracking_uri:
        uri = without_secrets(tracking_uri)
        local = f"{_command('mlflow')} ui --backend-store-uri {shlex.quote(uri)}"
        console.print(f"Look at it:   {uri if uri.startswith('http') else local}")
    if report := _report(states):
        console.print(f"Report:       {report}", soft_wrap=True)
    if index:
        program = _command("multiview")
        served = f"--index {shlex.quote(index)}"
        console.print(f"Ask it:       {program} search {shlex.quote(question or 'a question')} {served}")
        if champion:  # the server follows the next ones
            served = f"--store {shlex.quote(split_address(index)[0])}"
        console.print(f"Serve it:     {program} serve {served}")
    if index and not promotion and any("demo://" in json.dumps(state.config) for state in states):
        run = f"{_command('python')} -m pipelines run comparison --preset snippet-means"
        console.print(f"Your data:    {run} --set corpus.source=PASSAGES --set questions.source=QUESTIONS")


def show_table(console: Console, text: str) -> None:
    """Prints text with Markdown tables, drawn if the terminal is wide enough: Rich would leave out figures."""
    for is_table, lines in groupby(text.splitlines(), lambda line: line.startswith("|")):
        block = "\n".join(lines).strip()
        if is_table:
            console.print(*_drawn(console, block) if console.is_terminal else [block], sep="\n")
        elif block:
            console.print(block, style="dim", soft_wrap=not console.is_terminal)
    console.print()


def _drawn(console: Console, block: str) -> Iterator[Markdown]:
    """A Markdown table as the terminal has room for: its columns in one table, or in several below each other."""
    rows = [line.split("|")[1:-1] for line in block.splitlines()]
    system, *columns = zip(*rows, strict=True)
    parts = [[system]]
    for column in columns:
        # Drawn, a column has a gap on each side, and no asterisks.
        widths = [
            max(len(cell.replace("**", "").strip(" :-")) for cell in shown) + 2
            for shown in [*parts[-1], column]
        ]
        if sum(widths) > console.width and len(parts[-1]) > 1:
            parts.append([system])
        parts[-1].append(column)
    for part in parts:
        yield Markdown("\n".join(f"|{'|'.join(row)}|" for row in zip(*part, strict=True)))


def _table(states: list[StepState], metrics: Mapping[str, Mapping[str, float]]) -> str:
    """The last comparison's table with its legends; else the metrics' table, with legends on generated questions."""
    if comparison := _last(states, names.COMPARISON):
        return (_folder(comparison.outputs[names.COMPARISON]) / TABLE_FILE).read_text(encoding="utf-8")
    legends = [UNIT]
    if evaluation := _last(states, names.EVALUATION):
        measured = evaluation.outputs[names.EVALUATION]
        legends.append(asked_legend(*count_generated(_folder(measured))))
        legends.append(trained_legend({_row(evaluation): measured.address}))
    return "\n".join(filter(None, (markdown_table(metrics), *legends)))


def read_metrics(store: Store, run: str) -> dict[str, dict[str, float]]:
    """Returns the metrics of each system of a run; empty before its evaluation. Raises InputError for an unknown run."""
    states = {state.path: state for state in read_states(store, run)}
    return _metrics([states[path] for path in read_run(store, run).steps if path in states])


def _show_promotion(console: Console, promotion: JsonObject) -> None:
    number = promotion["champion"]["number"] if promotion["champion"] else "none"
    outcome = f"{TITLES[promotion['decision']]} ({promotion['says']})"
    later = promotion.get("now") not in (None, number)  # a rerun finds what an earlier start promoted
    console.print(
        f"Verdict:      {outcome}; the champion "
        + (f"was {number} and is {promotion['now']} now" if later else f"is {number}")
    )
    if promotion["decision"] == "refuse":
        console.print(f"Challenger:   {promotion['challenger']} can be asked with --index")
    console.print()


def _metrics(states: list[StepState]) -> dict[str, dict[str, float]]:
    """The metrics of each system of the last comparison, of both sides of a refresh, or of the last evaluation."""
    if comparison := _last(states, names.COMPARISON):
        return _read(comparison, names.COMPARISON, METRICS_FILE)
    evaluations = [state for state in states if names.EVALUATION in state.outputs]
    shown = evaluations if _promotion(states) else evaluations[-1:]
    measured = {_row(state): _read(state, names.EVALUATION, METRICS_FILE) for state in shown}
    # The index of nothing, against which the first champion is measured, has none.
    return {row: metrics for row, metrics in measured.items() if metrics}


def _row(state: StepState) -> str:
    return StepPath.parse(state.path).row


def _last(states: list[StepState], kind: str) -> StepState | None:
    return next((state for state in reversed(states) if kind in state.outputs), None)


def _promotion(states: list[StepState]) -> JsonObject | None:
    """Returns the outcome of a refresh's challenger, with the number of today's champion as `now`."""
    if not (state := _last(states, names.PROMOTION)):
        return None
    store = load_record(state.outputs[names.PROMOTION].address).store
    promotion, now = _read(state, names.PROMOTION, names.PROMOTION_FILE), current(store)
    if promotion["champion"]:  # both may be named where the store was before it was moved
        promotion["champion"]["index"]["address"] = _here(store, promotion["champion"]["index"]["address"])
    return {**promotion, "challenger": _here(store, promotion["challenger"]), "now": now and now.number}


def _here(store: Store, address: str) -> str:
    """The address of an artifact in `store`, if that has one of this key."""
    _, kind, key = split_address(address)
    return f"{store.url}/{kind}/{key}" if read_record(store, kind, key) else address


def _report(states: list[StepState]) -> str | None:
    """The page about the last comparison, copied from a bucket into the current folder; its address if that fails."""
    if not (state := _last(states, names.REPORT)):
        return None
    store, record = load_record(state.outputs[names.REPORT].address)
    address = f"{store.url}/{record.data}/{names.REPORT_PAGE_FILE}"
    if isinstance(store, LocalStore):
        return address
    page = Path.cwd() / f"report-{record.key[:8]}.html"
    with contextlib.suppress(OSError):
        shutil.copyfile(stage(store, record).path / names.REPORT_PAGE_FILE, page)
        return str(page)
    return address


def _show_example(console: Console, evaluation: StepState) -> str | None:
    """Prints a dev question whose best passage is right, with the snippet that matched; returns the question."""
    folder, inputs = _folder(evaluation.outputs[names.EVALUATION]), evaluation.inputs
    rows = pq.read_table(folder / QUESTIONS_FILE).to_pylist()
    answered = any(row["rank_of_first_answer"] for row in rows)  # otherwise the gold passage decides
    rank = "rank_of_first_answer" if answered else "rank_of_first_gold"
    right = [row for row in rows if row[rank] == 1 and row["top_start"] is not None]
    # Another passage may hold the answer's words by chance.
    right = [row for row in right if row["rank_of_first_gold"] == 1] or right
    if not right:
        return None
    questions = {question.qid: question for question in iterate_questions(_folder(inputs["questions"][0]))}
    shown = {row["top_passage_id"] for row in right}
    passages = PassageLookup(_folder(inputs["passages"][0])).passages(shown)

    def snippet(row: Row) -> str:
        return passages[row["top_passage_id"]].text[row["top_start"] : row["top_stop"]]

    def is_clear(row: Row) -> bool:
        """Whether the snippet holds the answer, and does not begin the text."""
        answers = questions[row["qid"]].answers
        return row["top_start"] > 0 and any(answer in snippet(row) for answer in answers)

    row = next((row for row in right if is_clear(row)), right[0])
    question, passage = questions[row["qid"]].question, passages[row["top_passage_id"]]
    text = Text(safe(passage.text))
    text.stylize("bold yellow", row["top_start"], row["top_start"] + len(snippet(row).rstrip()))
    lines = Table.grid(padding=(0, 1))
    lines.add_row("Question:", Text(safe(question), "bold"))
    lines.add_row(
        "Passage:", Text.assemble((safe(passage.title), "bold"), ": " if passage.title else "", text)
    )
    lines.add_row("Matched:", Text(safe(snippet(row).strip()), "bold yellow"))
    console.print(lines)
    console.print()
    return question


def _read(state: StepState, kind: str, file: str) -> JsonObject:
    """A JSON file of a step's output."""
    return json.loads((_folder(state.outputs[kind]) / file).read_bytes())


def _folder(artifact: Reference) -> Path:
    return stage(*load_record(artifact.address)).path


def _command(name: str) -> str:
    """Returns the command for a program of this environment: its path, unless the environment is active."""
    program = Path(sys.executable).parent / name
    if shutil.which(name) == str(program):
        return name
    return str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program)
