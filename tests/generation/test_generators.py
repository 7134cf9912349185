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
from multiview.generation.generators import generator_fingerprint, initial_generator, load, published
from multiview.model.base_model import hub
from multiview.steps.context import StepContext
from tests.fixtures.events import RecordedEvents
from tests.fixtures.payload import Payload
from tests.fixtures.pickled_weights import pickled
from tests.fixtures.tiny import tiny_bert, tiny_t5
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
    events = initial(t5, tmp_path / "one")
    copy = tmp_path / "elsewhere"
    copy.symlink_to(t5)
    initial(copy, tmp_path / "two")
    first, second = (digest_of(describe_files(tmp_path / name)) for name in ("one", "two"))
    assert first == second, "where it came from is not in it"
    model, _ = load(t5)
    again, _ = load(tmp_path / "one")
    assert events.facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_pickled_weights_make_the_same_generator(t5: Path, tmp_path: Path) -> None:
    initial(t5, tmp_path / "one")
    initial(pickled(t5, tmp_path / "pickled"), tmp_path / "two")
    first, second = (digest_of(describe_files(tmp_path / name)) for name in ("one", "two"))
    assert first == second


def test_what_is_no_generator_is_refused_with_one_line(t5: Path, tmp_path: Path) -> None:
    def refusal(model: Path | str, output: str) -> str:
        with pytest.raises(InputError) as error:
            initial(Path(model), tmp_path / output)
        assert "\n" not in str(error.value) and str(error.value).startswith("generation.model: ")
        return str(error.value)

    hostile = pickled(t5, tmp_path / "hostile", w=Payload(tmp_path / "mark"))
    assert "its weights are a pickle of more than tensors" in refusal(hostile, "a")
    assert not (tmp_path / "mark").exists()
    assert "there is no folder" in refusal(tmp_path / "nowhere", "b")
    bert = tiny_bert(tmp_path / "bert")
    assert "is of type bert (BertModel); give a sequence-to-sequence model such as T5" in refusal(bert, "c")


def test_a_hub_model_is_that_of_the_commit_in_the_key_(
    t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((t5 / "config.json").read_bytes())
    folders = {"a/t5": t5, "a/bare": tmp_path / "bare"}

    def download(name: str, revision: str, allow_patterns: list[str]) -> str:
        assert "*" not in allow_patterns and ("bin" not in str(allow_patterns) or name == "a/bare")
        asked.append((name, revision))
        return str(folders[name])

    monkeypatch.setattr(hub, "commit_of", lambda name: f"commit of {name}")
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    settings = Config.partial({"generation": Generation(model="a/t5")})
    assert generator_fingerprint(settings) == {"hub": "a/t5", "commit": "commit of a/t5"}
    initial(Path("a/t5"), tmp_path / "out")
    assert asked == [("a/t5", "commit of a/t5")]
    with pytest.raises(InputError, match=r"generation\.model: a/bare holds no \*\.safetensors or"):
        initial(Path("a/bare"), tmp_path / "none")


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
    model.resize_token_embeddings(200)  # the pieces, and T5's 100 tokens of its own
    model.save_pretrained(folder)
    initial(folder, tmp_path / "out")
    _, tokenizer = load(tmp_path / "out")
    assert tokenizer("Warsaw is in Poland.")["input_ids"][-1] == 1
    assert tokenizer.decode(tokenizer("Warsaw")["input_ids"], skip_special_tokens=True) == "Warsaw"
