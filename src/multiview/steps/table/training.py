"""Steps that read the data, and make models with the negatives, queries and questions that they learn from."""

from dataclasses import replace

from multiview import names
from multiview.steps.step import Step

PAIRS = ("generation.input", "generation.max_length")
"""Settings of the query generator's input, and of the length of its queries."""

SAMPLING = ("generation.queries", "generation.batch_size", "generation.seed", "encode.device")
"""Settings of the generator's drawing."""

VIEWS = ("encode.compute", "encode.batch_tokens", "encode.index_padding_views")
"""Settings of section encode that decide the views of passages."""

MATCHING = ("questions.answer_matching", "corpus.language")
"""Settings by which an answer is found in a text."""

_SNIPPETS = tuple(f"make_questions.{name}" for name in ("share", "snippets", "per_passage", "seed"))
"""Settings of the snippets that questions are made from."""

_SPLIT = Step(
    name="split",
    about="Cut the corpus into Parquet shards, and choose the questions.",
    version=14,
    function_path="multiview.data.split:split",
    settings=("corpus", "questions"),
    outputs=(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
    fingerprint_path="multiview.data.split:sources_fingerprint",
)

_MAKE_QUESTIONS = Step(
    name="make-questions",
    about="Training and dev questions made from the corpus: drafts by which BM25 finds their passage.",
    version=3,
    function_path="multiview.generation.make_questions:make_questions",
    settings=(
        "make_questions.found_within",
        *(
            f"questions.{name}"
            for name in ("origin", "dev_share", "limit", "dev_limit", "one_per_passage", "seed")
        ),
        "bm25.k1",
        "bm25.b",
        "corpus.language",
    ),
    inputs=("passages", "drafts"),
    list_inputs=("drafts",),
    outputs=(names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
)

STEPS = (
    _SPLIT,
    replace(
        _SPLIT,
        name="split-again",
        about="Cut the corpus into Parquet shards once more, and choose the questions.",
        inputs=("known",),
        unkeyed_inputs=("known",),
        supersedes="known",
        outputs=(*_SPLIT.outputs, names.LOST_QUESTIONS),
    ),
    Step(
        name="initial-model",
        about="The pretrained encoder with its viewer tokens, untrained.",
        version=6,
        function_path="multiview.model.encoder:initial_model",
        settings=("model",),
        outputs=(names.MODEL,),
        fingerprint_path="multiview.model.base_model.checkpoint:model_fingerprint",
    ),
    Step(
        name="bm25-negatives",
        about="BM25 negatives of the training questions.",
        version=4,
        function_path="multiview.negatives.bm25:bm25_negatives",
        settings=("bm25", "questions.hard_negatives", *MATCHING),
        inputs=("passages", "questions"),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="given-negatives",
        about="Hard negatives that come with the training questions.",
        version=1,
        function_path="multiview.negatives.negatives_file:given_negatives",
        inputs=("questions",),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="mine",
        about="Hard negatives mined with the index of the round before.",
        version=14,
        function_path="multiview.negatives.mining:mine",
        settings=("mining", "encode", *MATCHING),
        inputs=("model", "index", "passages", "questions", "bm25_negatives"),
        outputs=(names.NEGATIVES,),
        fingerprint_path="multiview.negatives.mining:cross_encoder_fingerprint",
        gpu=True,
    ),
    Step(
        name="teach",
        about="Scores of a cross-encoder for what each training question learns from.",
        version=5,
        function_path="multiview.negatives.cross_encoder:teach",
        settings=("mining.cross_encoder", "encode.compute", "encode.batch_tokens", "encode.device"),
        inputs=("passages", "questions", "hard_negatives"),
        outputs=(names.NEGATIVES,),
        fingerprint_path="multiview.negatives.mining:teacher_fingerprint",
        gpu=True,
    ),
    Step(
        name="warm-up",
        about="The stage of training on generated queries, before the first round.",
        version=9,
        function_path="multiview.training.train:warm_up",
        settings=("train",),
        inputs=("start", "passages", "queries"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="train",
        about="One round of training.",
        version=12,
        function_path="multiview.training.train:train",
        settings=("train", *MATCHING),
        inputs=("start", "passages", "questions", "negatives"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="initial-generator",
        about="The query generator as it was pretrained.",
        version=2,
        function_path="multiview.generation.generators:initial_generator",
        settings=("generation.model",),
        outputs=(names.GENERATOR,),
        fingerprint_path="multiview.generation.generators:generator_fingerprint",
    ),
    Step(
        name="train-generator",
        about="The query generator fine-tuned on the training questions.",
        version=2,
        function_path="multiview.generation.train:train_generator",
        settings=("generation.train", *PAIRS),
        inputs=("base", "passages", "questions"),
        outputs=(names.GENERATOR,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="generate-queries",
        about="Queries of the passages of one shard.",
        version=1,
        function_path="multiview.generation.generate:generate_queries",
        settings=(*SAMPLING, *PAIRS),
        inputs=("generator", "passages"),
        outputs=(names.QUERIES,),
        sharded=True,
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="gather-queries",
        about="The generated queries of all shards in one artifact.",
        version=1,
        function_path="multiview.data.queries:gather_queries",
        inputs=("parts",),
        list_inputs=("parts",),
        outputs=(names.QUERIES,),
    ),
    Step(
        name="crop-questions",
        about="Questions about the passages of one shard, cropped from their snippets.",
        version=2,
        function_path="multiview.generation.make_questions:crop_questions",
        settings=(*_SNIPPETS, "corpus.language"),
        inputs=("passages",),
        outputs=(names.DRAFTS,),
        sharded=True,
    ),
    Step(
        name="generate-questions",
        about="Questions about the passages of one shard, generated from their snippets.",
        version=1,
        function_path="multiview.generation.make_questions:generate_questions",
        settings=(*_SNIPPETS, *(name for name in SAMPLING if name != "generation.queries"), *PAIRS),
        inputs=("generator", "passages"),
        outputs=(names.DRAFTS,),
        sharded=True,
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="ask-questions",
        about="Questions about the passages of one shard, asked by a language model.",
        version=2,
        function_path="multiview.generation.ask_questions:ask_questions",
        settings=(*_SNIPPETS, "make_questions.llm"),
        inputs=("passages",),
        outputs=(names.DRAFTS,),
        fingerprint_path="multiview.generation.prompt:prompt_fingerprint",
        sharded=True,
        reads_store=True,
    ),
    _MAKE_QUESTIONS,
    replace(
        _MAKE_QUESTIONS,
        name="make-questions-by-index",
        about="Training and dev questions made from the corpus: drafts by which BM25 and an index find their passage.",
        version=2,
        settings=(*_MAKE_QUESTIONS.settings, "encode.device"),
        inputs=(*_MAKE_QUESTIONS.inputs, "model", "index"),
        traced_inputs=("index",),  # for the settings that questions are encoded with
        gpu=True,
    ),
)
