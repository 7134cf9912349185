"""The cross-encoder filter, with a real (tiny, untrained) classifier beside transformers' plain call."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import normalizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from multiview.artifacts.store import LocalStore
from multiview.config import Config, Corpus, Encode, Mining, Questions
from multiview.encoding import cross_encoder
from multiview.encoding.cross_encoder import CrossEncoder, pair_tokens
from multiview.encoding.encode import BLOCK
from multiview.errors import InputError
from multiview.index.ranker import write_search
from multiview.model.base_model.files import TEACHER
from multiview.negatives.mining import cross_encoder_fingerprint, mine_hits
from multiview.steps.table import STEPS
from tests.fixtures.analysed_model import WORDS
from tests.fixtures.artifacts import passage, question
from tests.fixtures.bases import random_base
from tests.fixtures.cross_encoders import LONG, classifier, plain_logits
from tests.fixtures.events import RecordedEvents
from tests.fixtures.mined_vectors import ONE, MinedVectors, mined_vectors
from tests.fixtures.pickled_weights import pickled
from tests.fixtures.tiny import tiny_bert


@pytest.fixture(scope="module")
def judge(tmp_path_factory) -> Path:
    return classifier(tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> MinedVectors:
    """Twelve passages of 3 to 80 words; `ONE` ranks them as they are numbered."""
    rng = np.random.default_rng(0)
    lengths = [3, 80, 5, 40, 12, 66, 7, 30, 22, 9, 50, 15]
    passages = [
        passage(f"p{i}", " ".join(rng.choice(WORDS, n)), str(rng.choice(WORDS)))
        for i, n in enumerate(lengths)
    ]
    return mined_vectors(tmp_path_factory.mktemp("corpus"), passages, [[[20.0 - i, 0.0]] for i in range(12)])


def test_logits_are_the_model_s_own_of_question_and_titled_passage(judge, corpus):
    asked = ["king of the river", "music?"]
    pairs = [(q, p, (i, j)) for i, q in enumerate(asked) for j, p in enumerate(corpus.passages)]
    found = dict(CrossEncoder(judge, Encode(batch_tokens=256), "judge", TEACHER).logits(pairs))
    expected = plain_logits(judge, [(q, f"{p.title} {p.text}") for q, p, _ in pairs])
    np.testing.assert_allclose([found[place] for *_, place in pairs], expected, atol=1e-4)
    assert np.ptp(expected) > 1, "not all alike, or nothing was compared"


def test_a_pair_s_logit_is_the_same_to_the_bit_whatever_stands_beside_it(judge, corpus):
    model = CrossEncoder(judge, Encode(batch_tokens=256), "judge", TEACHER)
    pairs = [("king", p, (0, j)) for j, p in enumerate(corpus.passages)]
    together = dict(model.logits(pairs))
    assert together == dict(model.logits(pairs[::-1]))
    assert together[0, 3] == dict(model.logits(pairs[3:4]))[0, 3]


def test_pairs_that_other_processes_tokenise_have_the_very_same_logits(judge, corpus, monkeypatch):
    model = CrossEncoder(judge, Encode(batch_tokens=256), "judge", TEACHER)
    pairs = [(f"king {i}", p, (i, j)) for i in range(9) for j, p in enumerate(corpus.passages)]
    assert len(pairs) > BLOCK
    here, ahead = ([*model.logits(pairs, processes)] for processes in (0, 2))
    assert ahead == here, "in the same order, too"
    mined, begun = mined_with(judge, corpus), []
    monkeypatch.setattr("multiview.negatives.cross_encoder.workers", lambda device: begun.append(device) or 1)
    assert (mined_with(judge, corpus).kept == mined.kept).all() and begun


def test_a_logit_that_is_no_number_suspects_float16_first(judge, corpus):
    model = CrossEncoder(judge, Encode(), "judge", TEACHER)
    model.model.classifier.weight.data.fill_(torch.nan)
    for compute, first in (("float32", ""), ("float16", "set encode.compute=bfloat16, or ")):
        model.settings = Encode.model_validate({"compute": compute})
        with pytest.raises(InputError, match=f"judge gives .* not numbers; {first}give another model"):
            list(model.logits([("king", corpus.passages[0], (0, 0))]))


def mined_with(judge: Path | None, corpus: MinedVectors, above: float = 0.1, **mining):
    name = None if judge is None else str(judge)
    chosen = Mining(depth=12, cross_encoder=name, cross_encoder_above=above, **mining)
    settings = Config.partial(
        {"mining": chosen, "encode": Encode(), "questions": Questions(), "corpus": Corpus()}
    )
    asked = [question("q", "king of the river", [corpus.passages[6].text], ["p2"])]
    ((_, mined),) = mine_hits(
        corpus.index, ONE, asked, corpus.folder / "passages", settings, RecordedEvents()
    )
    return mined


def test_only_hits_that_the_cheaper_filters_left_are_judged_and_dropped(judge, corpus, monkeypatch):
    judged = []

    def listening(tokenizer, length, question, passage, position):
        judged.extend([passage.id] * bool(passage.id))  # none is the trial's, when it is loaded
        return pair_tokens(tokenizer, length, question, passage, position)

    monkeypatch.setattr(cross_encoder, "pair_tokens", listening)
    without = mined_with(None, corpus, range_start=1, margin=4.0)
    cheaper = corpus.names(without, without.kept)
    assert cheaper == [f"p{i}" for i in range(7, 12)], "p6 holds the answer, p0 to p5 are too near to p2"
    texts = {p.id: f"{p.title} {p.text}" for p in corpus.passages}
    plain = 1 / (1 + np.exp(-plain_logits(judge, [("king of the river", texts[name]) for name in cheaper])))
    above = float(np.median(plain)) + 1e-4
    mined = mined_with(judge, corpus, above, range_start=1, margin=4.0)
    assert sorted(judged) == sorted(cheaper)
    expected = [name for name, score in zip(cheaper, plain, strict=True) if score <= above]
    assert corpus.names(mined, mined.kept) == expected
    assert mined.excluded["cross_encoder"].sum() == len(cheaper) - len(expected) == 2


def test_a_filter_that_leaves_every_hit_reads_none(judge, corpus, monkeypatch):
    kept = mined_with(None, corpus).kept
    monkeypatch.setattr(cross_encoder, "pair_tokens", None)
    mined = mined_with(judge, corpus, above=1.0)
    assert (mined.kept == kept).all() and kept.any()
    assert not mined.excluded["cross_encoder"].any()


def test_memory_is_bounded_by_open_batches(judge, corpus):
    """Pairs are asked for as batches need them: never all of them first."""
    model = CrossEncoder(judge, Encode(batch_tokens=256), "judge", TEACHER)
    taken = 0

    def many():
        nonlocal taken
        for taken in range(1, 1001):
            yield "king", corpus.passages[0], (0, taken)

    next(model.logits(many()))
    assert taken == BLOCK


def test_another_classifier_in_the_same_place_is_another_key(tmp_path):
    step, judge = STEPS["mine"], classifier(tmp_path / "judge")
    config, store = Config.model_validate({"mining": {"cross_encoder": str(judge)}}), LocalStore(tmp_path)

    def key() -> str:
        chosen = step.parse(step.configure(config))
        return step.key(chosen, {"index": "i"}, step.fingerprint(chosen, store))

    first = key()
    plain = step.parse(step.configure(Config()))
    assert step.fingerprint(plain, store) == {} and first != step.key(plain, {"index": "i"}, {})
    moved = Config.model_validate(
        {"mining": {"cross_encoder": str(shutil.copytree(judge, tmp_path / "copy"))}}
    )
    assert cross_encoder_fingerprint(moved) == cross_encoder_fingerprint(config), "the content, not the place"
    classifier(judge, seed=1)
    assert key() != first


def test_what_is_no_cross_encoder_is_refused_in_a_line(tmp_path, judge):
    def refused(folder: Path, says: str) -> None:
        with pytest.raises(InputError, match=f"^mining.cross_encoder: .*{says}") as error:
            CrossEncoder(folder, Encode(), str(folder), TEACHER)
        assert "\n" not in str(error.value)

    refused(classifier(tmp_path / "three", labels=3), "gives 3 logits per pair")
    headless = tiny_bert(tmp_path / "headless")
    config = json.loads((headless / "config.json").read_text())
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    (headless / "config.json").write_text(json.dumps(config))
    refused(headless, "has no weights for")


def test_pickled_weights_score_the_same_and_are_copied_into_an_index(tmp_path, judge):
    folder = pickled(judge, tmp_path / "pickled")
    pairs = [("who built the castle?", "A king did."), ("river", "gold")]
    (tmp_path / "index").mkdir()
    write_search(tmp_path / "index", Config.model_validate({"search": {"rerank": str(folder)}}), ())
    copied = tmp_path / "index" / "reranker"
    expected = plain_logits(judge, pairs)
    for each in (folder, copied):
        np.testing.assert_array_equal(plain_logits(each, pairs), expected)
        CrossEncoder(each, Encode(), str(each), TEACHER)


def test_a_cross_encoder_that_cannot_score_a_pair_is_refused(tmp_path, judge):
    """One that knows a single segment, with a tokenizer that tells two apart."""
    folder = Path(shutil.copytree(judge, tmp_path / "judge"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"type_vocab_size": 1}))
    weights = load_file(folder / "model.safetensors")
    weights = {n: w[:1].clone() if "token_type" in n else w for n, w in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=f"^{TEACHER}: judge cannot score a pair: "):
        CrossEncoder(folder, Encode(), "judge", TEACHER)


@pytest.mark.parametrize("padding", ["[UNK]", "[MASK]", "[SEP]", None, -1])
def test_a_decoder_s_head_never_reads_padding(tmp_path, corpus, padding):
    """Its configuration may name another token than the tokenizer's, here `[SEP]`, with which a pair also ends."""
    folder = random_base(tmp_path, "qwen3")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    id_ = tokenizer.convert_tokens_to_ids(padding) if isinstance(padding, str) else padding
    special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    tokenizer.pad_token = "[SEP]"
    tokenizer.save_pretrained(folder)
    config = AutoConfig.from_pretrained(folder, num_labels=1)
    config.pad_token_id = id_
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(folder)
    pairs = [("king", p, (0, j)) for j, p in enumerate(corpus.passages)]
    judge = CrossEncoder(folder, Encode(batch_tokens=256), "judge", TEACHER)
    found = dict(judge.logits(pairs))
    if id_ in (None, -1):
        model.config.pad_token_id = tokenizer.pad_token_id
    for question_, p, place in pairs:
        cut = {"truncation": "longest_first", "max_length": judge.length}
        alone = tokenizer(question_, f"{p.title} {p.text}", return_tensors="pt", **cut)
        with torch.no_grad():
            expected = model(alone["input_ids"], attention_mask=alone["attention_mask"]).logits[0, 0].item()
        assert found[place] == pytest.approx(expected, abs=1e-4)


def makers_folder(judge: Path, folder: Path, made: dict[str, object], **transformer: object) -> Path:
    """The same classifier as sentence-transformers writes it."""
    shutil.copytree(judge, folder)
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"model_type": "CrossEncoder"} | made)
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps(transformer))
    return folder


def test_a_cross_encoder_is_used_as_its_makers_do(judge, corpus, tmp_path):
    unused = {"prompts": {"query": "query: "}, "default_prompt_name": None}
    folder = makers_folder(judge, tmp_path / "made", unused, max_seq_length=16, do_lower_case=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()  # so that it tells cases apart
    tokenizer.save_pretrained(folder)
    made = CrossEncoder(folder, Encode(), "made", TEACHER)
    assert made.length == 16
    pair = ("KING of the River", corpus.passages[1], (0, 0))
    (kept, (_, segments)) = pair_tokens(made.tokenizer, made.length, *pair)
    cut = {"truncation": "longest_first", "max_length": 16}
    expected = tokenizer("king of the river", f"{corpus.passages[1].title} {corpus.passages[1].text}", **cut)
    assert (kept.input_ids, segments) == (expected["input_ids"], expected["token_type_ids"])
    asked, short = "the king of the river " * 5, corpus.passages[0]
    (kept, _) = pair_tokens(made.tokenizer, made.length, asked, short, (0, 0))
    assert kept.input_ids == tokenizer(asked, f"{short.title} {short.text}", **cut)["input_ids"]
    longer = makers_folder(judge, tmp_path / "longer", {}, max_seq_length=4096)
    assert CrossEncoder(longer, Encode(), "longer", TEACHER).length == LONG


def test_a_default_prompt_of_a_cross_encoder_is_refused(judge, tmp_path):
    made = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    with pytest.raises(
        InputError, match=f"^{TEACHER}: made: .* a default prompt .query: 'query: '. is not supp"
    ):
        CrossEncoder(makers_folder(judge, tmp_path / "made", made), Encode(), "made", TEACHER)


@pytest.mark.parametrize("place", ["tokenizer_config.json", "chat_template.jinja"])
def test_a_chat_template_of_a_cross_encoder_is_refused_unless_its_makers_read_pairs_without_it(
    judge, tmp_path, place
):
    folder, template = makers_folder(judge, tmp_path / "made", {}), "{{ messages }}"
    written = json.loads(file.read_text()) if (file := folder / place).exists() else None
    file.write_text(json.dumps(written | {"chat_template": template}) if written else template)
    with pytest.raises(InputError, match=f"^{TEACHER}: made: it reads pairs through a chat template"):
        CrossEncoder(folder, Encode(), "made", TEACHER)
    of_text = {"text": {"method": "forward", "method_output_name": "logits"}}
    (folder / "sentence_bert_config.json").write_text(json.dumps({"modality_config": of_text}))
    CrossEncoder(folder, Encode(), "made", TEACHER)
