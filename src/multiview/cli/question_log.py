"""`multiview question-log`: what a log of questions says of drift, and candidates for the gate from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multiview.cli.folders import check_folder
from multiview.cli.options import Debug
from multiview.errors import InputError, counted


def question_log(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The file of `multiview serve --question-log`.")],
    candidates: Annotated[
        Path | None,
        typer.Option(help="Folder for candidates for gate.must_find: dev questions and a preset."),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, help="Candidates at most, the questions asked most often.")
    ] = 50,
    rank: Annotated[
        int, typer.Option(min=1, help="Rank at which a candidate's passage must be found, or better.")
    ] = 5,
    debug: Debug = False,
) -> None:
    """Show how logged questions drift, index by index, and make candidates for the gate from them."""
    from multiview.serving.logged import QUANTILE, asked_most, question_drift, write_candidates
    from multiview.serving.question_log import read_question_log

    if candidates is not None:
        check_folder("--candidates", candidates)
    drift = question_drift(read_question_log(log))
    for found in drift:
        print(
            f"{found.index}: {counted(found.questions, 'question')}, {found.distinct} distinct, "
            f"{found.unanswered} unanswered"
        )
        if found.below is not None:
            print(
                f"  median top score {found.earlier:.3f}, then {found.later:.3f}; below the earlier {QUANTILE:.0%} "
                f"quantile: {found.below:.1%}"
            )
    if not drift:
        empty = next(read_question_log(log), None) is None
        print(f"{log}: {'no question was logged yet' if empty else 'every question has a condition (where)'}")
    if candidates is not None:
        chosen = asked_most(read_question_log(log), most)
        if not chosen:
            raise InputError(
                f"--candidates: no question of {log} has a hit and no condition; none can be made"
            )
        dev, gate = write_candidates(candidates, chosen, rank)
        print(
            f"{counted(len(chosen), 'candidate')}: check that each passage answers its question in {dev}; then --preset {gate}"
        )
