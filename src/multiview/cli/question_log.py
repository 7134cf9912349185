"""`multiview question-log`: what a log of questions says of drift, and candidates for the gate from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multiview.cli.options import Debug


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

    for found in question_drift(read_question_log(log)):
        print(
            f"{found.index}: {found.questions} questions, {found.distinct} distinct, {found.unanswered} unanswered"
        )
        if found.below is not None:
            print(
                f"  median top score {found.earlier:.3f}, then {found.later:.3f}; below the earlier {QUANTILE:.0%} "
                f"quantile: {found.below:.1%}"
            )
    if candidates is not None:
        chosen = asked_most(read_question_log(log), most)
        dev, gate = write_candidates(candidates, chosen, rank)
        print(
            f"{len(chosen)} candidates: check that each passage answers its question in {dev}; then --preset {gate}"
        )
