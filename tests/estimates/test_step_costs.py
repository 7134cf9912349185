"""The costs of steps: formulas by hand, and amounts of the real steps."""

from dataclasses import replace

import pytest

from multiview.config import Train
from multiview.data.processes import MOST
from multiview.data.questions import Question
from multiview.estimates.step_costs import COSTS, cost_of
from multiview.estimates.workload import Hardware
from multiview.steps.table import STEPS
from multiview.training.stream import QuestionStream
from tests.fixtures.estimated import LOAD, RATES, config, scenario


def test_models_are_of_steps_that_exist() -> None:
    assert set(COSTS) < set(STEPS)


@pytest.mark.parametrize("epochs", [0.5, 1, 2.5])
@pytest.mark.parametrize("most", [None, 4])
def test_steps_are_those_of_a_training(epochs: float, most: int | None) -> None:
    train = Train(batch_size=8, epochs=epochs, max_steps=most, warmup_steps=None)
    questions = [Question(f"q{i}", "?", (), None, ("p",)) for i in range(30)]
    stream = QuestionStream(questions, [("p",)] * 30, {q.qid: {"bm25": ["n"]} for q in questions}, train)
    counted = scenario(questions=30).workload.steps(config(train=train.model_dump()))
    assert counted == stream.steps


def test_every_cost_grows_with_what_it_works_on() -> None:
    # Analyses encode a sample, which does not grow.
    exported = config(export={"formats": ["views", "delta"]}, evaluation={"analyses": []})
    for step in COSTS:
        small, large = (
            cost_of(step, exported, scenario(passages=size, questions=size / 20, dev_questions=size / 300))
            for size in (1e6, 2e6)
        )
        if step not in ("initial-model", "initial-generator"):
            begun = RATES["start_seconds"]
            assert large.seconds - begun > 1.5 * (small.seconds - begun), step
            assert large.disk >= small.disk > 0 or step == "follow-champion", step
        assert large.memory >= small.memory


def test_an_export_costs_what_its_formats_write() -> None:
    costs = {
        formats: cost_of("export", config(export={"formats": formats}), scenario(changed=0.02))
        for formats in ((), ("views",), ("delta",), ("views", "delta"), ("model",), ("model", "onnx"))
    }
    assert set(costs[()].parts) == {"start"} and costs[()].disk == 0
    written = {formats: cost.parts.get("writing views", 0.0) for formats, cost in costs.items()}
    assert written["delta",] == pytest.approx(0.02 * written["views",])
    assert written["views", "delta"] == pytest.approx(1.02 * written["views",])
    assert [formats for formats, cost in costs.items() if "comparing passages" in cost.parts] == [
        ("delta",),
        ("views", "delta"),
    ]
    assert (
        costs["model", "onnx"].disk
        == 2 * costs["model",].disk
        == 2 * cost_of("initial-model", config(), scenario()).disk
    )
    assert costs["delta",].memory > costs["views",].memory


@pytest.mark.parametrize(
    ("step", "least"),
    [
        ("split", 166),
        ("split-again", 297),
        ("bm25-negatives", 408),
        ("index", 238),
        ("refresh-index", 261),
        ("changes", 224),
        ("evaluate", 231),
    ],
)
def test_memory_grows_at_least_as_it_was_measured_of_tiny_passages(step: str, least: int) -> None:
    """By bytes per passage, between 100,000 and a million of them (tests/torture/test_many_passages.py)."""
    small, large = (cost_of(step, config(), scenario(passages=size, words=9)).memory for size in (1e5, 1e6))
    assert large - small >= 9e5 * least


def test_gpus_share_the_shards_and_cost_the_same() -> None:
    one, eight = (cost_of("encode", config(), scenario(gpus), 16) for gpus in (1, 8))
    assert one.seconds == pytest.approx(8 * eight.seconds) and one.gpu_seconds == eight.gpu_seconds
    assert (eight.tasks, eight.at_once) == (16, 8)


def test_half_precision_is_faster_by_the_device_s_figures() -> None:
    device = RATES.device("h100")
    float32, half = (
        cost_of("encode", config(encode={"compute": compute}), scenario(1)).parts["forward passes"]
        for compute in ("float32", "bfloat16")
    )
    assert float32 / half == pytest.approx(device.half_flops / device.float32_flops)


def test_a_warm_up_is_a_training_on_every_passage_without_hard_negatives() -> None:
    chosen = {"epochs": 2, "batch_size": 100, "negatives": 3, "validate_steps": 5}
    warm_up = cost_of("warm-up", config(train=chosen), scenario(1, questions=10))
    alone = config(train={**chosen, "negatives": 0, "validate_steps": None})
    train = cost_of("train", alone, scenario(1, questions=LOAD.passages))
    assert replace(warm_up, memory=train.memory) == train
    assert warm_up.memory < train.memory, "it holds ids instead of questions"
    assert warm_up.seconds > 100


def test_each_process_of_a_training_reads_the_weights() -> None:
    one, eight = (cost_of("train", config(), scenario(gpus)).memory for gpus in (1, 8))
    nodes = replace(scenario(8), hardware=replace(scenario(8).hardware, nodes=2))
    weights, process = cost_of("initial-model", config(), scenario()).disk, RATES["process_bytes"]
    negatives = LOAD.questions * 80
    kept = LOAD.questions * RATES["question_bytes"] + negatives * RATES["kept_negative_bytes"]
    each, read = weights + kept, negatives * RATES["negative_bytes"]
    assert one == pytest.approx(each + read + process)
    assert eight == pytest.approx(8 * (each + process) + kept + read + process)
    there = cost_of("train", config(), nodes).memory
    assert there == pytest.approx(4 * (each + process) + kept + read + process)
    two = cost_of("train", config(train={"processes": 2}), scenario(8)).memory
    assert two == pytest.approx(2 * (each + process) + kept + read + process)


def test_memory_grows_at_least_as_it_was_measured_of_many_questions() -> None:
    """By bytes per question: of 58,880 with 80 hard negatives, of 58,000 with 200 hits and with 100 of 15 rankings."""
    measured = {"train": 8_300, "mine": 15_000, "evaluate": 99_000}
    for step, least in measured.items():
        few, many = (
            cost_of(step, config(), scenario(questions=count, dev_questions=count)).memory
            for count in (1_000, 58_000)
        )
        assert many - few >= 57_000 * least, step


def test_a_step_has_its_own_hardware() -> None:
    large = replace(scenario(), pods={"encode": replace(scenario().hardware, cores=16)})
    for step, faster in (("encode", 2), ("split", 1)):
        parts, own = (cost_of(step, config(), each).parts for each in (scenario(), large))
        longest = max(parts, key=lambda part: parts[part])
        assert parts[longest] == pytest.approx(faster * own[longest]), step


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ("split", "sentences"),
        ("bm25-negatives", "inverted index"),
        ("bm25-negatives", "answers in hits"),
        ("mine", "answers in hits"),
        ("encode", "tokenising"),
    ],
)
def test_longer_texts_take_longer(step: str, part: str) -> None:
    short, long = (cost_of(step, config(), scenario(words=words)).parts[part] for words in (100, 300))
    assert long == pytest.approx(3 * short)


@pytest.mark.parametrize(("step", "settings"), [("encode", "encode"), ("train", "train")])
def test_half_precision_has_a_rate_of_its_own_on_processors(step: str, settings: str) -> None:
    name = {"encode": "compute", "train": "precision"}[settings]
    float32, half = (
        cost_of(step, config(**{settings: {name: precision}}), scenario()).parts
        for precision in ("float32", "bfloat16")
    )
    part = max(float32, key=lambda each: float32[each])
    assert float32[part] / half[part] == pytest.approx(RATES[f"{step}_half_flops"] / RATES[f"{step}_flops"])


def test_a_chunk_takes_a_forward_pass_more_and_less_memory() -> None:
    whole, chunked = (cost_of("train", config(train={"chunk": chunk}), scenario(1)) for chunk in (None, 8))
    assert chunked.parts["forward and backward"] == pytest.approx(whole.parts["forward and backward"] * 4 / 3)
    assert chunked.gpu_memory < whole.gpu_memory / 2
    settings = config(train={"chunk": 8, "gradient_checkpointing": True})
    both = cost_of("train", settings, scenario(1))
    assert both.parts["forward and backward"] == pytest.approx(whole.parts["forward and backward"] * 5 / 3)


def test_a_validation_costs_the_encoding_of_its_pool() -> None:
    chosen = {"max_steps": 100, "validate_steps": 40, "validation_passages": 500, "precision": "bfloat16"}
    cost = cost_of("train", config(train=chosen, encode={"compute": "bfloat16"}), scenario(1))
    corpus = cost_of("encode", config(encode={"compute": "bfloat16"}), scenario(1))
    # Before the first step, after 40, 80 and 100.
    pool = 4 * 500 / scenario(1).workload.passages
    assert cost.parts["validation"] == pytest.approx(corpus.parts["forward passes"] * pool)
    assert "validation" not in cost_of("train", config(), scenario(1)).parts


def test_passages_with_their_queries_are_longer_to_bm25() -> None:
    """Ten queries of 14 tokens, at 1.3 tokens per word."""
    plain, expanded = (
        cost_of(step, config(generation={"queries": 10}), scenario())
        for step in ("evaluate-bm25", "evaluate-bm25-with-queries")
    )
    words = scenario().workload.words
    longer = (words + 10 * 14 / RATES["tokens_per_word"]) / words
    assert expanded.parts["inverted index"] == pytest.approx(longer * plain.parts["inverted index"])
    assert expanded.parts["searches"] == plain.parts["searches"] and expanded.memory > plain.memory
    assert expanded.parts["answers in hits"] == plain.parts["answers in hits"], "of the passages' own texts"


def test_passages_are_tokenised_once_and_each_query_once() -> None:
    plain = cost_of("encode", config(), scenario()).parts["tokenising"]
    chosen = {"model": {"architecture": "dual-cross"}, "generation": {"queries": 10}}
    asked = cost_of("encode-with-queries", config(**chosen), scenario()).parts["tokenising"]
    words = LOAD.words + 10 * 14 / RATES["tokens_per_word"]
    assert asked == pytest.approx(words / LOAD.words * plain)


def test_queries_are_copied_read_and_compared() -> None:
    chosen = config(generation={"queries": 5})
    stored = 5 * 1e6 * 14 / RATES["tokens_per_word"] * RATES["stored_bytes_per_word"]
    assert cost_of("gather-queries", chosen, scenario()).disk == pytest.approx(stored)
    parts = cost_of("evaluate-queries", chosen, scenario()).parts
    assert parts["reading queries"] == pytest.approx(5 * 1e6 / RATES["read_queries"])
    assert parts["comparing queries"] == pytest.approx(5 * 3_000 / RATES["compared_queries"])


def test_changes_are_stored_and_all_passages_are_matched() -> None:
    cost = cost_of("changes", config(), scenario(changed=0.02))
    stored = 1e6 * 100 * RATES["stored_bytes_per_word"]
    assert cost.disk == pytest.approx(0.02 * stored)
    assert cost.parts["reading texts"] == pytest.approx(stored / RATES["disk_bytes"])
    assert cost.parts["matching"] == pytest.approx(1e6 / RATES["matched_passages"])


def test_sentences_are_split_by_as_many_processes_as_the_step_has() -> None:
    one, eight, many = (
        cost_of("split", config(), replace(scenario(), hardware=Hardware(0, "h100", cores, 64e9))).parts
        for cores in (1, MOST, 4 * MOST)
    )
    assert one["sentences"] == pytest.approx(MOST * eight["sentences"]) and many == eight
    assert one["reading and writing"] == 0, "one process does everything"
    words = LOAD.passages * LOAD.words
    assert sum(eight.values()) == pytest.approx(RATES["start_seconds"] + words / RATES["read_words"])


def test_a_gpu_waits_only_for_what_other_processes_have_not_tokenised_yet() -> None:
    at_once = cost_of("encode", config(), scenario(1)).parts
    in_series = cost_of("encode", config(encode={"workers": 0}), scenario(1)).parts
    one = cost_of("encode", config(encode={"workers": 1}), scenario(1)).parts
    assert in_series["tokenising"] > at_once["tokenising"] == 0
    assert one["tokenising"] == max(0, in_series["tokenising"] - in_series["forward passes"])
    assert cost_of("encode", config(), scenario()).parts["tokenising"] == pytest.approx(
        in_series["tokenising"]
    )
