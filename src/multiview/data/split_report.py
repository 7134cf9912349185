"""What `split` reports: what it left out as warnings, its counts as facts and metrics."""

from __future__ import annotations

from importlib.metadata import version

from multiview.data import questions
from multiview.data.chosen import Chosen
from multiview.data.reading.problems import Problems
from multiview.data.reading.readers import UNKNOWN_JUDGED
from multiview.data.seen import Seen
from multiview.errors import counted
from multiview.steps.events import Events


def report_split(
    events: Events,
    chosen: Chosen,
    seen: Seen,
    remarks: Problems,
    passage_count: int,
    sentences: int,
) -> None:
    """Reports what was left out as warnings, and the counts of the step as facts and metrics."""
    if shared := questions.shared_line(chosen.train, chosen.dev):
        events.warning(shared)
    if chosen.dropped:
        events.warning(
            counted(
                chosen.dropped,
                "question was dropped: its gold passages are not in the corpus",
                "questions were dropped: their gold passages are not in the corpus",
            )
        )
    if chosen.lost:
        events.warning(
            f"{counted(chosen.lost, 'question')} left out: the gold passage holds the answer no more, the first: "
            f"{next(iter(seen.lost.values()))}"
        )
    if seen.moved_answers:
        events.warning(
            f"{counted(len(seen.moved_answers), 'answer')} not at the offset, found again in the passage, the first: "
            f"{seen.moved_answers[0]}"
        )
    if unheld := seen.unheld_line():
        events.warning(unheld)
    if chosen.nameless:
        events.warning(f"{counted(chosen.nameless, 'training question')} without a gold passage: left out")
    if seen.left_out:
        events.warning(f"{counted(seen.left_out, 'passage')} without text: left out")
    if chosen.unknown:
        events.warning(
            f"{counted(chosen.unknown, 'gold passage')} not in the corpus, of questions that have others: left out"
        )
    if chosen.unknown_negatives:
        events.warning(f"{counted(chosen.unknown_negatives, 'given negative')} not in the corpus: left out")
    for kind, times in remarks.counts.items():
        events.warning(f"{kind}: {times:,}, the first: {remarks.first[kind]}")
    if unanswered := sum(not q.answers for q in chosen.train):
        events.warning(
            f"{counted(unanswered, 'training question')} without answers: train.positive=answer takes the best view"
        )
    facts = {
        "passages": passage_count,
        "train_questions": len(chosen.train),
        "dev_questions": len(chosen.dev),
        "dropped_questions": chosen.dropped,
        "questions_without_gold": chosen.nameless,
        "questions_with_lost_answers": chosen.lost,
        "moved_answers": len(seen.moved_answers),
        "questions_without_held_answers": len(seen.unheld),
        "passages_without_text": seen.left_out,
        "unknown_positives": chosen.unknown,
        "unknown_judged_questions": remarks.counts.get(UNKNOWN_JUDGED, 0),
        "avq": questions.questions_per_passage(chosen.train),
        "sentences_per_passage": sentences / passage_count,
    }
    events.fact("nltk", version("nltk"))
    for name, value in facts.items():
        events.fact(name, value)
        events.metric(name, float(value))
