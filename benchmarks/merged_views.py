"""What leaving out views that say the same saves and costs, and how often the best view is the answer's, untrained.

    python -m benchmarks.merged_views

Two untrained systems over a slice of SQuAD, from `$MULTIVIEW_DATA`: `mvr`, whose eight viewers start from [CLS], and
`base-pooled`, a mean per snippet. The first table has the views and the accuracy of an exact index by `index.merge_views`.
The second takes, in each question's gold passage, views that training could take for the answer's where its offset is
not known, and compares them with the view at the offset.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

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


def merged(shard: Embeddings, cosine: float | None) -> ViewIndex:
    """An exact index in memory."""
    corpus = MergedCorpus([shard], merge_views=cosine)
    views, table = corpus.read_rows(np.arange(corpus.rows)), corpus.passages
    header = {"model": shard.model, "kind": EXACT, LONGEST_VIEW: longest_view(views)}
    ids, offsets = table["id"].combine_chunks(), table["offset"].to_numpy()
    return ViewIndex(views, ids, offsets, corpus.view_counts, header)


def guesses(
    index: ViewIndex, queries: np.ndarray, questions: Sequence[Question], passages: IndexedPassages
) -> Iterator[tuple[bool, bool, bool, bool, float]]:
    """Of each question with an answer within one view of its gold passage: whether several views hold the text of an
    answer; whether the first of these has it at its offset, whether the best of these by cosine has, and whether the
    best of all has; and by how much the latter is above the next."""
    gold = Positives(index.ids, questions).first
    for indexed in passages.read(gold):
        spans, text = [view.span for view in indexed.views], indexed.passage.text
        for number in np.flatnonzero(gold == indexed.row).tolist():
            asked = questions[number]
            true, _ = answer_views(spans, text, asked.answers, asked.answer_starts)
            found, kind = answer_views(spans, text, asked.answers)
            if true and found and len(spans) > 1:
                cosines = index.view_scores(queries[number], indexed.row) / SCALE
                second, first = np.sort(cosines)[-2:].tolist()
                best = max(found, key=lambda view: cosines[view]) in true
                yield kind == "several", found[0] in true, best, int(cosines.argmax()) in true, first - second


def main() -> None:
    """Prints both tables."""
    with tempfile.TemporaryDirectory(prefix="merged-views-") as folder:
        store = LocalStore(Path(folder))
        print("| system | merge_views | views | MB | acc@1 | acc@20 | gold@1 | gold@20 |", flush=True)
        for name, given in SYSTEMS.items():
            request = Request.make("training", gather("squad-slice", [*SETTINGS, *given]), "squad-slice")
            row = Row(request.plan, describe(request, store)).until("encode")
            run(row, store.root)
            made = state_of(store, row, "split")
            assert made is not None
            split = {kind: stage(*load_record(each.address)).path for kind, each in made.outputs.items()}
            questions = read_questions(split[names.DEV_QUESTIONS])
            encoder = Encoder(folder_of(store, row, "initial-model"), Encode(compute="bfloat16"))
            queries = encoder.question_vectors([question.question for question in questions])
            shard, corpus = Embeddings(folder_of(store, row, "encode")), PassageLookup(split[names.PASSAGES])
            for cosine in COSINES:
                index = merged(shard, cosine)
                top = index.search(queries, 20).passages
                hits = AnswerHits(questions, index.ids, corpus, "string").holds(top)
                hits = hits, Positives(index.ids, questions).hits(top)
                shares = [100 * each[:, :k].any(axis=1).mean() for each in hits for k in (1, 20)]
                size = f"{len(index.views):,} | {index.views.nbytes / 1e6:.2f}"
                print(
                    f"| {name} | {cosine} | {size} | {' | '.join(f'{each:.1f}' for each in shares)} |",
                    flush=True,
                )
        passages = IndexedPassages(
            merged(shard, None), encoder.layout, PassageRows(shard_files(corpus.folder))
        )
        found = np.array([*guesses(merged(shard, None), queries, questions, passages)])
    margins, several, rest = found[:, 4], found[:, 0] == 1, found[:, :4]
    print(f"\n{len(found):,} questions; several views hold the text for {several.sum():,}")
    for which, rows in (("all", rest), ("several", rest[several])):
        print(f"{which}: first, best with the text, best of all: {(100 * rows[:, 1:].mean(axis=0)).round(1)}")
    for margin in MARGINS:
        above = margins >= margin
        print(f"| {margin} | {100 * above.mean():.1f} | {100 * rest[above, 3].mean():.1f} |")


if __name__ == "__main__":
    main()
