"""Which models are generators, and what is made of them."""

import io
import json
from pathlib import Path

import pytest
import sentencepiece
import torch
from transformers import T5ForConditionalGeneration

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import describe_files, digest_of, load_record
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Generation
from multiview.errors import InputError
from multiview.generation.generators import initial_generator, load, published
from multiview.steps.context import StepContext
from tests.fixtures.events import RecordedEvents
from tests.fixtures.pickled_weights import pickled
from tests.fixtures.tiny import tiny_t5
from tests.fixtures.training_material import SENTENCES


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_t5(tmp_path_factory.mktemp("t5"))


def initial(model: Path, output: Path) -> RecordedEvents:
    output.mkdir()
    events = RecordedEvents()
    settings = Config.partial({"generation": Generation(model=str(model))})
    initial_generator(StepContext(settings, {}, {"generator": output}, events))
    return events


def test_the_initial_generator_is_the_model_by_content(t5: Path, tmp_path: Path) -> None:
    """Where it came from is not in it, nor whether its weights were a pickle."""
    events = initial(t5, tmp_path / "one")
    copy = tmp_path / "elsewhere"
    copy.symlink_to(t5)
    initial(copy, tmp_path / "two")
    initial(pickled(t5, tmp_path / "pickled"), tmp_path / "three")
    assert len({digest_of(describe_files(tmp_path / name)) for name in ("one", "two", "three")}) == 1
    model, again = (load(folder)[0] for folder in (t5, tmp_path / "one"))
    assert events.facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_an_address_is_a_generator_s_or_no_address_at_all(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    for kind in ("generator", "model"):
        attempt = Attempt(store, kind, "k")
        (attempt.path / "a.txt").write_text("a")
        attempt.publish(step="train-generator", step_version=1, config={}, inputs={})
    address = f"{store.url}/generator/k"
    reference = published(address)
    assert reference is not None and reference.address == address
    assert reference.digest == load_record(address)[1].digest
    assert [published(name) for name in ("t5-small", "google/t5", str(tmp_path), "hf://b/t5/x")] == [None] * 4
    with pytest.raises(InputError, match="is the address of model, not of a generator"):
        published(f"{store.url}/model/k")


def test_a_tokenizer_may_be_a_sentencepiece_file_as_t5_s_are(t5: Path, tmp_path: Path) -> None:
    folder, written = tmp_path / "spiece", io.BytesIO()
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(  # pyright: ignore[reportAttributeAccessIssue]
        sentence_iterator=iter(SENTENCES),
        model_writer=written,
        vocab_size=90,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    (folder / "spiece.model").write_bytes(written.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer"}))
    model = T5ForConditionalGeneration.from_pretrained(t5)
    model.resize_token_embeddings(192)  # the pieces, and T5's 100 tokens of its own
    model.save_pretrained(folder)
    initial(folder, tmp_path / "out")
    _, tokenizer = load(tmp_path / "out")
    assert tokenizer("Warsaw is in Poland.")["input_ids"][-1] == 1
    assert tokenizer.decode(tokenizer("Warsaw")["input_ids"], skip_special_tokens=True) == "Warsaw"
