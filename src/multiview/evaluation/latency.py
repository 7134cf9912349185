"""The time that one question takes, asked alone as a user asks it, beside the throughput of many at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

SEARCH_SECONDS = "search_seconds_per_question"
"""Fact of an evaluation: the time of a search by many questions together, without their encoding, per question."""
TIMED = 256
"""Number of questions whose search is timed, the first ones, after all questions were searched for."""
SINGLE_QUESTION = "single_question_milliseconds"
"""Fact of an evaluation: the median time of one question asked alone, its encoding and its search."""
SINGLE_SEARCH = "single_search_milliseconds"
"""Fact of an evaluation: the median time of the search for one question alone."""

QUESTIONS = 30
"""Number of questions that are asked one at a time, at most."""
SECONDS = 10.0
"""No further question is asked after this time, because a large exact index takes as long for one question as for many."""


def median_milliseconds(
    ask: Callable[[str], object], questions: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the median time of `ask` over the first `questions`, one at a time.

    The first question is asked once before, because work that is done only once is not counted. Raises ValueError
    without questions.
    """
    if not questions:
        raise ValueError("there is no question to ask")
    ask(questions[0])
    begun, seconds = clock(), []
    for question in questions[:QUESTIONS]:
        started = clock()
        ask(question)
        seconds.append(clock() - started)
        if clock() - begun > SECONDS:
            break
    return 1000 * statistics.median(seconds)
