"""The steps that all systems of a plan share: split, made questions, negatives of round one, generated queries."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from multiview import names
from multiview.artifacts.record import load_record, load_reference
from multiview.config import Config
from multiview.data.cjk import LANGUAGES, SPACELESS
from multiview.data.sentences import PUNKT, splitter
from multiview.errors import InputError, nearest
from multiview.generation.generators import published
from multiview.index.approximate import EXACT, FACTORY
from multiview.model.layouts import architecture
from multiview.model.systems import stage_settings
from multiview.plans.plan import Input, Node, Output, Plan
from multiview.steps.path import StepPath


@dataclass(frozen=True)
class Data:
    """The outputs that all systems read."""

    passages: Output
    train_questions: Output
    dev_questions: Output
    negatives: Output | None = None
    """Round one's hard negatives, if a system is trained."""
    queries: Output | None = None
    """The queries generated for the passages, if a system needs them."""


def add_data(plan: Plan, config: Config, systems: Iterable[Config]) -> Data:
    """Adds the split and, if a system needs them, BM25's or given negatives and generated queries. Questions made from
    the corpus become the training questions, and also the dev questions if the settings name no labelled ones."""
    systems = list(systems)
    for each in (config, *systems):
        check_names(each)
    split = plan.add(StepPath("split"), "split", config)
    passages, train_questions = split.output(names.PASSAGES), split.output(names.TRAIN_QUESTIONS)
    dev_questions = split.output(names.DEV_QUESTIONS)
    if config.questions.origin != "labelled":
        check_made_questions(config, systems)
        made = add_made_questions(plan, _with_snippets(config, systems), passages)
        train_questions = made.output(names.TRAIN_QUESTIONS)
        if not config.questions.source and not config.questions.dev_source:
            dev_questions = made.output(names.DEV_QUESTIONS)
    data = Data(passages, train_questions, dev_questions)
    if any(system.train.rounds for system in systems):
        step, inputs = "given-negatives", {"questions": train_questions}
        if config.questions.hard_negatives != "given":
            step, inputs["passages"] = "bm25-negatives", passages
        data = replace(data, negatives=plan.add(StepPath(step), step, config, **inputs).output())
    if any(reads_queries(system) or system.train.warm_up for system in systems):
        data = replace(data, queries=add_queries(plan, config, data))
    return data


FOUND_BY = "make_questions.found_by"


def check_made_questions(config: Config, systems: Iterable[Config]) -> None:
    """Raises InputError for settings that do not suit training questions made from the corpus."""
    origin = config.questions.origin
    if config.questions.hard_negatives != "bm25":
        raise InputError(
            f"questions.hard_negatives={config.questions.hard_negatives}: questions made from the corpus "
            f"(questions.origin={origin}) come without negatives; set questions.hard_negatives=bm25"
        )
    if origin == "generator" and config.generation.fine_tune:
        raise InputError(
            "generation.fine_tune: the generator makes the training questions (questions.origin=generator), so it "
            "cannot be trained on them; set it to false, or generation.model=ADDRESS to a generator that was fine-tuned"
        )
    if origin == "llm" and not config.make_questions.llm.model:
        raise InputError(
            "questions.origin=llm: set make_questions.llm.model, as the endpoint make_questions.llm.base_url names it"
        )
    if config.make_questions.found_by and not config.make_questions.found_within:
        raise InputError(
            f"{FOUND_BY} needs make_questions.found_within: within how many it is to find the passage"
        )
    if not all(system.model.merge_title for system in systems if _reads_snippets(system)):
        raise InputError(
            "model.merge_title=false: questions are made from snippets that are cut with the title merged, and their "
            "answers would lie in several snippets of this system; set model.merge_title=true"
        )


def _reads_snippets(system: Config) -> bool:
    """Whether a round of training needs to know which of Algorithm 1's snippets holds the answer."""
    rounds = [system, *([stage_settings(system, "round_two")] if system.train.rounds > 1 else [])]
    return system.model.architecture == "camvr" and any(each.train.positive != "max" for each in rounds)


def _with_snippets(config: Config, systems: Iterable[Config]) -> Config:
    """Returns the settings with enough snippets that each lies within one snippet of every system."""
    views = [system.model.views for system in systems if _reads_snippets(system)]
    snippets = max([config.make_questions.snippets, *views])
    made = config.make_questions.model_copy(update={"snippets": snippets})
    return config.model_copy(update={"make_questions": made})


def add_made_questions(plan: Plan, config: Config, passages: Output) -> Node:
    """Adds the drafts of questions by shard, and the step that keeps some of them."""
    steps = {"crop": "crop-questions", "generator": "generate-questions", "llm": "ask-questions"}
    step, inputs = steps[config.questions.origin], dict[str, Input](passages=passages)
    if config.questions.origin == "generator":
        inputs["generator"] = generator_of(plan, config)
    made: dict[str, Input | list[Input]] = {
        "passages": passages,
        "drafts": [plan.add(StepPath(step), step, config, **inputs)],
    }
    step = "make-questions"
    if address := config.make_questions.found_by:
        index = load_record(address, FOUND_BY, names.INDEX)
        model = load_reference(index.record.inputs[names.MODEL][0], f"{FOUND_BY}: {address}", index.store)
        step, made = f"{step}-by-index", {**made, "index": index.reference, "model": model.reference}
    return plan.add(StepPath("make-questions"), step, config, **made)


def generator_of(plan: Plan, config: Config) -> Input:
    """Returns the generator before fine-tuning: an artifact, or a step, which is added if the plan lacks it."""
    if generator := published(config.generation.model):
        return generator
    path = StepPath("initial-generator")
    return plan.nodes.get(path) or plan.add(path, "initial-generator", config)


def add_queries(plan: Plan, config: Config, data: Data) -> Output:
    """Adds the generation of queries for all passages, and the fine-tuning of the generator before it, if it is set."""
    generator, passages = generator_of(plan, config), data.passages
    if config.generation.fine_tune:
        step, inputs = "train-generator", {"base": generator, "questions": data.train_questions}
        generator = plan.add(StepPath(step), step, config, passages=passages, **inputs)
    return generated_queries(plan, config, generator, passages)


def generated_queries(
    plan: Plan, config: Config, generator: Input, passages: Input, system: str = ""
) -> Output:
    """Adds the generation of queries for all passages, by shard."""
    path, inputs = StepPath("generate-queries", system), {"generator": generator, "passages": passages}
    parts = plan.add(path, "generate-queries", config, **inputs)
    return plan.add(StepPath("gather-queries", system), "gather-queries", config, parts=[parts]).output()


def reads_queries(config: Config) -> bool:
    """Whether passages are encoded together with generated queries."""
    return architecture(config.model.architecture).reads_queries


DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]+)?")


def check_names(config: Config) -> None:
    """Raises InputError for an unknown language, kind of index or device, a layout that does not suit the language, and
    metrics at no k that is retrieved: which questions have answers is known by their accuracy."""
    language = config.corpus.language
    if language not in PUNKT | LANGUAGES:
        splitter(language)
    if language in SPACELESS and config.model.architecture == "equal-splits":
        raise InputError(
            f"model.architecture=equal-splits: it counts words between spaces, and corpus.language={language} has none; "
            "use sentence"
        )
    kind, kinds = config.index.kind, (EXACT, *FACTORY)
    if kind not in kinds and not kind[:1].isupper():
        raise InputError(
            f"index.kind: there is no {kind!r}{nearest(kind, kinds, kinds)}, or a faiss factory string"
        )
    if kind not in kinds:
        # Imports faiss, which no other kind needs before it is built.
        from multiview.index.approximate.kinds import check_factory

        check_factory(config.index)
    depth, at = config.evaluation.depth, config.evaluation.at
    if min(at, default=depth + 1) > depth:
        raise InputError(f"evaluation.at={list(at)} needs a k of evaluation.depth={depth} or less")
    if not DEVICE.fullmatch(name := config.encode.device):
        raise InputError(f"encode.device: there is no device {name!r}; use auto, cpu or cuda")
