"""Settings of the data (corpus, questions, BM25), and of the queries and questions generated from it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from multiview.config.section import DERIVED, UNKEYED, Address, Section, Seed, matching


def _check_names(sources: tuple[str, ...]) -> tuple[str, ...]:
    if not all(source.strip() and "\0" not in source for source in sources):
        raise PydanticCustomError(
            "source", "expected names of files, folders or URLs; one is empty, or holds a NUL character"
        )
    return sources


Sources = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    AfterValidator(_check_names),
]
"""One or several files, folders or fsspec URLs; a single string is a list of one."""

DataFormat = Literal[
    "auto",
    "squad",
    "dpr",
    "tevatron",
    "flagembedding",
    "qa",
    "marco",
    "parquet",
    "jsonl",
    "csv",
    "tsv",
    "text",
]


class Corpus(Section):
    """Sources of the passages, and how they are cut and sharded."""

    source: Annotated[Sources, UNKEYED] = ()
    """Files, folders, patterns or URLs of passages (docs/data.md). Empty: the questions' own passages."""
    format: DataFormat = "auto"
    """Format of `source`; `auto` detects it from the file's name and first lines."""
    columns: dict[str, str] = {}
    """Names of the columns in a Parquet, JSONL, CSV or TSV file: our name to yours, as in {id: pid}."""
    cut: Literal["auto", "none", "words", "sentences"] = "auto"
    """How long texts are cut into passages of at most `cut_length` words: not at all, after any word (DPR), or at the ends of sentences. `auto` cuts text files by words and leaves other formats uncut."""
    cut_length: Annotated[int, Field(ge=1)] = 100
    """Most words in a passage that is cut from a longer text (DPR)."""
    empty_text: Literal["refuse", "title", "drop"] = "refuse"
    """Handling of a passage without text: stop the run, use its title as its text (some BEIR passages have only a title), or leave it out and count it. *Ours.*"""
    keep: Literal["all", "gold"] = "all"
    """`gold` keeps only the passages of the chosen training questions, including given negatives, and of all dev questions. *Ours.*"""
    shards: Annotated[int, Field(ge=1, le=100)] = 2
    """Number of shards of about equal length, in which passages are encoded: tens, never thousands. *Ours.*"""
    language: str = "english"
    """Language of the texts, for NLTK's sentence splitter and BM25's stemmer and stop words. In `chinese`, `japanese` and `korean`, sentences also end with 。！？, answers are matched by characters, and BM25 compares pairs of letters; where there are no spaces, each letter is a word (docs/data.md)."""


class Questions(Section):
    """Sources of the questions, and which questions are used."""

    origin: Annotated[Literal["labelled", "crop", "generator", "llm"], UNKEYED] = "labelled"
    """Where the training questions come from: from `source` (`labelled`), or from snippets of the corpus (docs/questions.md). `crop` takes a few words of a snippet and needs no model; `generator` lets `generation.model` ask about it, `llm` a language model (`make_questions.llm`). Shapes the DAG. *Ours.*"""
    source: Annotated[Sources, UNKEYED] = ()
    """Files, folders, patterns or URLs of training questions (docs/data.md)."""
    dev_source: Annotated[Sources, UNKEYED] = ()
    """Files, folders, patterns or URLs of the questions for evaluation. Empty: `dev_share` of `source` is held out."""
    dev_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of gold passages whose questions are held out when there is no `dev_source`, and always of made questions. *Ours.*"""
    format: DataFormat = "auto"
    """Format of `source` and `dev_source`; `auto` detects it from the file's name and first lines."""
    columns: dict[str, str] = {}
    """Names of the columns in a Parquet, JSONL, CSV or TSV file: our name to yours, as in {qid: query_id}."""
    hard_negatives: Literal["bm25", "given", "both"] = "bm25"
    """Hard negatives of round one: from BM25's hits, those that come with the training questions (docs/data.md), or both in turn. Shapes the DAG."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Number of training questions, sampled by `seed`; none: all."""
    dev_limit: Annotated[int, Field(ge=1)] | None = None
    """Number of dev questions, sampled by `seed`; none: all."""
    one_per_passage: bool = False
    """Keep one training question per passage: AVQ = 1 (CAMVR 4.4)."""
    max_missing_gold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Largest share of questions whose gold passage may be missing from the corpus or no longer hold any of their answers; such questions are left out and counted. *Ours.*"""
    free_answers: bool = False
    """Accept answers that no gold passage holds, such as yes and no, or that look like several in one; otherwise the run is refused if no gold passage of any question holds an answer, or more than 1 % hold only a part of one. *Ours.*"""
    answer_matching: Literal["string", "regex"] = "string"
    """How answers are found in texts: by DPR's token match (by characters in Chinese, Japanese and Korean: `corpus.language`), or as regular expressions (CuratedTREC)."""
    seed: Seed = 0
    """Seed of the random choices above."""


class Bm25(Section):
    """BM25 negatives, with the values of DPR's maintainers. *Ours.*"""

    k1: Annotated[float, Field(ge=0)] = 0.9
    """Term saturation."""
    b: Annotated[float, Field(ge=0, le=1)] = 0.4
    """Length normalisation."""
    depth: Annotated[int, Field(ge=1)] = 50
    """Hits per question, before answer-holding passages and positives are left out."""


class GeneratorTraining(Section):
    """Fine-tuning of the query generator on the training questions; the authors' code uses transformers' defaults for most settings."""

    epochs: Annotated[float, Field(gt=0)] = 3
    """Passes over the pairs of gold passage and question (the authors' code: transformers' default)."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many steps, even before `epochs` is reached; none: no limit."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    """Pairs per step (the authors' code: 8 per GPU)."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Peak learning rate, with linear decay to zero (the authors' code: transformers' default)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the computation. Not float16: T5's activations overflow it."""
    checkpoint_steps: Annotated[int, Field(ge=1), UNKEYED] = 500
    """Steps between checkpoints: the most that a killed run has to repeat. *Ours.*"""
    seed: Seed = 0
    """Seed of data order and dropout."""


class Generation(Section):
    """Queries generated from passages, for the Dual Cross Encoder (its 3.4). Settings that the paper leaves open follow the authors' code."""

    model: Annotated[str, UNKEYED] = "macavaney/doc2query-t5-base-msmarco"
    """A sequence-to-sequence model: hub name (`NAME` or `NAME@REVISION`), folder, bucket folder, `package:NAME`, or the address of a `generator` in a store. The default is docTTTTTquery's T5-base, which the authors use, with its weights as safetensors."""
    fine_tune: Annotated[bool, UNKEYED] = False
    """Fine-tune the generator on the training questions first. Shapes the DAG."""
    queries: Annotated[int, Field(ge=1)] = 10
    """Queries drawn per passage."""
    max_length: Annotated[int, Field(ge=1)] = 64
    """Longest query in tokens (the authors' code)."""
    input: Literal["text", "title_text"] = "title_text"
    """The model's input: the passage's text, or its title and its text (the authors' code)."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Passages per batch; every batch has exactly this many. The last bits of the logits depend on it, so it is part of the key."""
    seed: Seed = 0
    """Seed of the draws, per passage and query: order and sharding do not matter."""
    train: GeneratorTraining = GeneratorTraining()


class LanguageModel(Section):
    """The language model that asks the questions with `questions.origin=llm`, through OpenAI's chat API. Its API key is read from OPENAI_API_KEY (`kubeflow.secrets`)."""

    model: str | None = None
    """The model's name at the endpoint."""
    base_url: Annotated[Address, matching(r"[^?#]*", "expected an address without ? and #")] = (
        "https://api.openai.com/v1"
    )
    """The endpoint's address."""
    prompt: Annotated[str | None, UNKEYED] = None
    """File or URL of the prompt, in the form of `src/multiview/generation/prompt.yaml`, the default; it may also hold a judge's prompt."""
    concurrency: Annotated[int, Field(ge=1), UNKEYED] = 8
    """Requests at a time, per shard."""
    budget: Annotated[Annotated[int, Field(ge=1)] | None, UNKEYED] = None
    """Tokens that all runs in a store may spend together on this endpoint and model, after which nothing more is asked; none: no limit. A shard learns what the others have spent after every 32 × `concurrency` requests of its own."""


class MakeQuestions(Section):
    """Questions made from snippets of the corpus, with `questions.origin` (docs/questions.md). *Ours.*"""

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the passages that questions are made from, drawn by `seed`."""
    snippets: Annotated[int, Field(ge=1), DERIVED] = 8
    """Snippets per passage that Algorithm 1 makes (its n): at least as many as CAMVR has views."""
    per_passage: Annotated[int, Field(ge=1)] = 2
    """Snippets per passage that questions are made from, drawn by `seed`."""
    found_within: Annotated[int, Field(ge=1)] | None = 10
    """Keep only training questions whose passage BM25 ranks at this rank or better (the round trip); none: keep all. Dev questions are not filtered, because the filter would then decide BM25's figures."""
    found_by: Annotated[str | None, UNKEYED] = None
    """Address of an index, such as that of the base (`train.rounds=0`), whose views must also rank the passage within `found_within`; none: BM25 alone decides."""
    llm: LanguageModel = LanguageModel()
    seed: Seed = 0
    """Seed of the draws, per passage and snippet: order and sharding do not matter."""
