"""A model, its index and what it retrieves, small enough to recompute plainly; and subjects made by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from multiview.artifacts.staged import Staged
from multiview.config import Encode, Evaluation, Model, Questions
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.encoding.encode import Encoder, encode
from multiview.evaluation.analyses.subject import Subject
from multiview.index.exact import TopPassages
from multiview.index.faiss_library import faiss
from multiview.index.view_index import ViewIndex
from multiview.model.encoder import BiEncoder
from tests.recording import Recorder
from tests.retrieval.corpora import questions_folder, write_index, write_passages
from tests.tiny import tiny_bert

TEXT = """
city country state river mountain sea ocean island king queen president army battle church school college
team game season player league cup music album song band film book author writer art science theory law
court century people language water air light energy heat oxygen gas carbon iron gold silver plant animal
"""
WORDS = TEXT.split()
VIEWS = 4
MODEL = {"views": VIEWS, "passage_length": 64, "question_length": 16}
DEPTH = 12


def corpus(rng: np.random.Generator) -> tuple[list[Passage], list[Question]]:
    """Thirty passages of one to six sentences, some without title; two or three questions about every other one.

    A question is some words of its passage; its answer is another word, with its offset or without.
    """
    passages, questions = [], []
    for number in range(30):
        sentences = [" ".join(rng.choice(WORDS, rng.integers(3, 8))) + ". " for _ in range(1 + number % 6)]
        ends = tuple(np.cumsum([len(sentence) for sentence in sentences]).tolist())
        title = "" if number % 5 == 0 else str(rng.choice(WORDS))
        passages.append(Passage(f"p{(number * 7) % 30:02d}", title, "".join(sentences), ends))
    for number in range(0, 30, 2):
        passage = passages[number]
        for i in range(2 + number % 4 // 2):
            words = passage.text.replace(".", "").split()
            answer = str(rng.choice(words))
            starts = (passage.text.index(answer),) if i % 2 else None
            asked = " ".join(rng.choice(words, 3)) + "?"
            questions.append(Question(f"q{number}-{i}", asked, (answer,), starts, (passage.id,)))
    questions.append(Question("q without answer", "river?", (), None, (passages[0].id,)))
    return passages, questions


class World:
    """Everything up to the index, as the runner would hand it to `evaluate`."""

    def __init__(self, folder: Path, padding: bool = False, **model: Any) -> None:
        self.passages, self.questions = corpus(np.random.default_rng(0))
        self.folder = folder
        self.encode = Encode(batch_tokens=512, index_padding_views=padding)
        base = tiny_bert(folder / "base")
        BiEncoder.create(Model.model_validate({"base": str(base), **MODEL, **model})).save(folder / "model")
        questions = Staged(questions_folder(folder / "questions", self.questions), "questions")
        self.inputs = {
            "model": Staged(folder / "model", "model"),
            "passages": Staged(write_passages(folder / "passages", self.passages), "passages"),
            "questions": questions,
            "train_questions": questions,
        }
        for name in ("embeddings", "index"):
            (folder / name).mkdir()
        encode(
            SimpleNamespace(encode=self.encode),
            self.inputs,
            {"embeddings": folder / "embeddings"},
            Recorder(),
        )
        write_index(folder / "index", folder / "embeddings")
        self.inputs["index"] = Staged(folder / "index", "index")

    def settings(self, **evaluation: Any) -> SimpleNamespace:
        """What `evaluate` reads."""
        chosen = Evaluation.model_validate({"depth": DEPTH, "at": (1, 3, 5, 100), **evaluation})
        return SimpleNamespace(evaluation=chosen, encode=self.encode, questions=Questions())

    def subject(self, **evaluation: Any) -> Subject:
        settings = self.settings(**evaluation)
        encoder = Encoder(self.folder / "model", self.encode)
        index = ViewIndex.load(self.folder / "index")
        queries = encoder.question_vectors([question.question for question in self.questions])
        return Subject(
            model=self.folder / "model",
            layout=encoder.layout,
            index=index,
            passages=self.inputs["passages"].path,
            questions=self.questions,
            train_questions=self.inputs["train_questions"].path,
            queries=queries,
            top=index.search(queries, settings.evaluation.depth),
            settings=settings.evaluation,
            encode=self.encode,
            matching="string",
            tell=Recorder(),
        )


def hand_index(views: list[np.ndarray], ids: list[str]) -> ViewIndex:
    """An index of passages with `views` [n_i, dim] each."""
    counts = np.array([len(rows) for rows in views])
    flat: Any = faiss.IndexFlatIP(max(rows.shape[1] for rows in views))
    flat.add(np.concatenate(views).astype(np.float32))
    return ViewIndex(flat, pa.array(ids), np.cumsum(counts) - counts, counts, {"model": "model"})


def hand_subject(folder: Path, passages: list[Passage], questions: list[Question], **given: Any) -> Subject:
    """A subject over a few passages; what a test does not look at is None."""
    write_passages(folder / "passages", passages)
    unseen = ("model", "layout", "index", "train_questions", "queries", "top", "settings", "encode")
    rest: dict[str, Any] = {**dict.fromkeys(unseen), "matching": "string", "tell": Recorder(), **given}
    return Subject(passages=folder / "passages", questions=questions, **rest)


def retrieved(passages: list[list[int]], views: list[list[int]]) -> TopPassages:
    """A ranking made by hand; scores fall by one."""
    numbers = np.array(passages)
    scores = np.tile(-np.arange(numbers.shape[1], dtype=np.float32), (len(numbers), 1))
    return TopPassages(numbers, scores, np.array(views, np.int32))


def fresh_views(world: World) -> dict[str, tuple[np.ndarray, list[bool]]]:
    """Each passage's views [views, dim] in float64, encoded alone and without any bucket, and which are padding."""
    import torch

    from multiview.model.batch import make_batch

    model = BiEncoder.load(world.folder / "model")
    found = {}
    for passage in world.passages:
        vectors, padding = [], []
        for sequence in model.layout.passage(passage):
            with torch.inference_mode():
                vectors.append(model.encode_passages(make_batch([sequence], 0, len(sequence.views)))[0])
            padding += [view.padding for view in sequence.views]
        found[passage.id] = torch.cat(vectors).double().numpy(), padding
    return found
