"""What leaving out redundant views saves and costs, and how often the best view is the answer's, without training.

    python -m benchmarks.merged_views

Two untrained systems over a slice of SQuAD, from `$MULTIVIEW_DATA`: `mvr`, whose eight viewers start from [CLS], and
`base-pooled`, a mean per snippet. The first table has the views and the accuracy of an exact index by `index.merge_views`.
The second compares, in each question's gold passage, the views that training could take for the answer's if the
answer's offset were unknown with the view at the offset.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.camvr_or_mvr import Row, folder_of, run, state_of
from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.config import Encode
from multiview.config.overrides import gather
from multiview.data.answers import answer_views
from multiview.data.passages import PassageLookup, PassageRows, shard_files
from multiview.data.questions import Question, read_questions
from multiview.encoding.embeddings import Embeddings
from multiview.encoding.encode import Encoder
from multiview.index.approximate import EXACT
from multiview.index.indexed_passages import IndexedPassages
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.stored_views import LONGEST_VIEW, longest_view
from multiview.index.view_index import ViewIndex
from multiview.model.layouts.base import Layout
from multiview.negatives.filters import AnswerHits, Positives
from multiview.plans.request import Request, describe

SYSTEMS = {
    "mvr": ("model.architecture=mvr", "model.init=cls"),
    "base-pooled": ("model.architecture=camvr", "model.pooling=snippet", "train.positive=max"),
}
SCALE = 50
SETTINGS = (
    *("questions.limit=20", "questions.dev_limit=1000", "train.rounds=0", "encode.compute=bfloat16"),
    *("model.normalise=true", f"model.scale={SCALE}", "model.tied=true"),
)
COSINES = (None, 0.999, 0.98, 0.95, 0.9)
MARGINS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2)


class Encoded(NamedTuple):
    """The slice of SQuAD as a system encodes it."""

    shards: list[Embeddings]
    corpus: Path
    questions: list[Question]
    queries: np.ndarray
    layout: Layout


def encoded(store: LocalStore, settings: Sequence[str]) -> Encoded:
    """Encodes the slice, by the steps of a training without rounds."""
    request = Request.make("training", gather("squad-slice", [*SETTINGS, *settings]), "squad-slice")
    row = Row(request.plan, describe(request, store)).until("index")
    run(row, store.root)
    split, index = state_of(store, row, "split"), state_of(store, row, "index")
    assert split and index
    made = {kind: stage(*load_record(each.address)).path for kind, each in split.outputs.items()}
    shards = [Embeddings(stage(*load_record(each.address)).path) for each in index.inputs["embeddings"]]
    questions = read_questions(made[names.DEV_QUESTIONS])
    encoder = Encoder(folder_of(store, row, "initial-model"), Encode(compute="bfloat16"))
    queries = encoder.question_vectors([question.question for question in questions])
    return Encoded(shards, made[names.PASSAGES], questions, queries, encoder.layout)


def merged(shards: Sequence[Embeddings], cosine: float | None) -> ViewIndex:
    """An exact index in memory, with views merged by `cosine`."""
    corpus = MergedCorpus(shards, merge_views=cosine)
    views, table = corpus.read_rows(np.arange(corpus.rows)), corpus.passages
    header = {"model": shards[0].model, "kind": EXACT, LONGEST_VIEW: longest_view(views)}
    ids, offsets = table["id"].combine_chunks(), table["offset"].to_numpy()
    return ViewIndex(views, ids, offsets, corpus.view_counts, header)


def accuracies(of: Encoded, index: ViewIndex) -> list[float]:
    """acc@1, acc@20, gold@1 and gold@20 in per cent."""
    top = index.search(of.queries, 20).passages
    answered = AnswerHits(of.questions, index.ids, PassageLookup(of.corpus), "string").holds(top)
    gold = Positives(index.ids, of.questions).hits(top)
    return [100 * float(hits[:, :k].any(axis=1).mean()) for hits in (answered, gold) for k in (1, 20)]


def guesses(of: Encoded) -> Iterator[tuple[bool, bool, bool, bool, float]]:
    """Per question with an answer within one view of its gold passage: whether several views hold an answer's text;
    whether the right view, at the answer's offset, is the first of these, is the best of these by cosine, and is the
    best of all; and by how much the best of all is above the next."""
    index = merged(of.shards, None)
    gold = Positives(index.ids, of.questions).first
    for indexed in IndexedPassages(index, of.layout, PassageRows(shard_files(of.corpus))).read(gold):
        spans, text = [view.span for view in indexed.views], indexed.passage.text
        for number in np.flatnonzero(gold == indexed.row).tolist():
            asked = of.questions[number]
            true, _ = answer_views(spans, text, asked.answers, asked.answer_starts)
            found, kind = answer_views(spans, text, asked.answers)
            if true and found and len(spans) > 1:
                cosines = index.view_scores(of.queries[number], indexed.row) / SCALE
                second, first = np.sort(cosines)[-2:].tolist()
                best = max(found, key=lambda view: cosines[view]) in true
                yield kind == "several", found[0] in true, best, int(cosines.argmax()) in true, first - second


def main() -> None:
    """Prints both tables."""
    with tempfile.TemporaryDirectory(prefix="merged-views-") as folder:
        store = LocalStore(Path(folder))
        systems = {name: encoded(store, settings) for name, settings in SYSTEMS.items()}
        print("| system | merge_views | views | MB | acc@1 | acc@20 | gold@1 | gold@20 |")
        for name, of in systems.items():
            for cosine in COSINES:
                index = merged(of.shards, cosine)
                figures = " | ".join(f"{each:.1f}" for each in accuracies(of, index))
                print(
                    f"| {name} | {cosine} | {len(index.views):,} | {2e-6 * len(index.views) * index.views.shape[1]:.2f} | {figures} |"
                )
        found = np.array([*guesses(systems["base-pooled"])])
    right, margins, several = found[:, 1:4], found[:, 4], found[:, 0] == 1
    for which, rows in (("all", right), ("with several such views", right[several])):
        first, best, any_view = 100 * rows.mean(axis=0)
        print(
            f"{len(rows):,} questions, {which}: the first view with the text {first:.1f}, the best of these {best:.1f}"
        )
        print(f"  the best of all views {any_view:.1f}")
    for margin in MARGINS:
        above = margins >= margin
        print(f"| {margin} | {100 * above.mean():.1f} | {100 * right[above, 2].mean():.1f} |")


if __name__ == "__main__":
    main()
