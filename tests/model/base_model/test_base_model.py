"""Base models that do not fit are refused in one line, as encoder, generator and teacher; those that fit are whole."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, BertForPreTraining, BertModel, T5Config, T5EncoderModel

from multiview.config import Config, Encode, Generation, Model
from multiview.encoding.cross_encoder import CrossEncoder
from multiview.errors import InputError
from multiview.generation.generators import initial_generator
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.base_model.files import BASE, GENERATOR, RERANKER, TEACHER
from multiview.model.encoder import BiEncoder, initial_model
from multiview.steps.context import StepContext
from tests.fixtures.cross_encoders import classifier
from tests.fixtures.events import RecordedEvents
from tests.fixtures.payload import Payload
from tests.fixtures.tiny import tiny_bert, tiny_t5

Change = Callable[[Path], object]
"""Breaks the base model in a folder."""
Weights = dict[str, Tensor]
WEIGHTS = "model.safetensors"
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
MAKE = {BASE: tiny_bert, GENERATOR: tiny_t5, TEACHER: classifier, RERANKER: classifier}


def reweighted(change: Callable[[str, Tensor], tuple[str, Tensor] | None]) -> Change:
    """Changes or leaves out each weight."""

    def write(folder: Path) -> None:
        weights = (change(name, weight) for name, weight in load_file(folder / WEIGHTS).items())
        save_file(dict(kept for kept in weights if kept), folder / WEIGHTS, metadata={"format": "pt"})

    return write


def prefixed(prefix: str) -> Change:
    return reweighted(lambda name, weight: (prefix + name, weight))


def valued(value: float) -> Change:
    return reweighted(lambda name, weight: (name, weight.clone().fill_(value) if ".1." in name else weight))


def typed(dtype: torch.dtype) -> Change:
    return reweighted(lambda name, weight: (name, weight.to(dtype)))


def configured(file: str = "config.json", **values: object) -> Change:
    def write(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return write


def written(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def without_tokenizer(*kept: str) -> Change:
    def remove(folder: Path) -> None:
        for file in folder.iterdir():
            if file.name not in ("config.json", WEIGHTS, *kept):
                file.unlink()

    return remove


def cut_off(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:-100])


def without_a_shard(folder: Path) -> None:
    in_shards(folder)
    (folder / "model-00001-of-00002.safetensors").unlink()


def with_a_shard_elsewhere(folder: Path) -> None:
    without_a_shard(folder)
    index = folder / f"{WEIGHTS}.index.json"
    index.write_text(index.read_text().replace("model-00001-of", "../model-00001-of"))


def without_an_index(folder: Path) -> None:
    in_shards(folder)
    (folder / f"{WEIGHTS}.index.json").write_text("{}")


def in_shards(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(weights)
    shards = {f"model-0000{n + 1}-of-00002.safetensors": names[n::2] for n in range(2)}
    for shard, held in shards.items():
        save_file({name: weights[name] for name in held}, folder / shard, {"format": "pt"})
    weight_map = {name: shard for shard, held in shards.items() for name in held}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def with_tokens(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["newword"])
    tokenizer.save_pretrained(folder)


def with_adapter(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    name = next(name for name in weights if ".0." in name)
    save_file(weights | {f"{name}.lora_A": torch.zeros(2, 2)}, folder / WEIGHTS, {"format": "pt"})


def with_code(folder: Path) -> None:
    """Weights as a pickle alone, which writes a mark beside the folder where it is not read as tensors."""
    weights = load_file(folder / WEIGHTS) | {"w": Payload(folder.parent / "mark")}
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def with_one_layer(folder: Path) -> None:
    """A configuration of fewer layers than there are weights for."""
    names = json.loads((folder / "config.json").read_text()).keys() & {"num_hidden_layers", "num_layers"}
    configured("config.json", **dict.fromkeys(names, 1))(folder)


def bert_tokenizer_without_words(folder: Path) -> None:
    without_tokenizer()(folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


def with_special_tokens_alone(folder: Path) -> None:
    path = folder / "tokenizer.json"
    made = json.loads(path.read_text())
    model, special = made["model"], [token["content"] for token in made["added_tokens"]]
    many = isinstance(model["vocab"], dict)
    model["vocab"] = (
        {token: n for n, token in enumerate(special)} if many else [[token, 0.0] for token in special]
    )
    path.write_text(json.dumps(made))


def with_words(share: float) -> Change:
    """Without the last words of the tokenizer, so that it has tokens for a share of the embeddings."""

    def change(folder: Path) -> None:
        path = folder / "tokenizer.json"
        made = json.loads(path.read_text())
        vocab = [*made["model"]["vocab"].items()]
        made["model"]["vocab"] = dict(vocab[: math.ceil(share * len(vocab))])
        path.write_text(json.dumps(made))

    return change


FILES: dict[str, tuple[Change, str]] = {
    **{
        prefix: (
            prefixed(prefix),
            f"the names of its weights begin with {prefix} \\({prefix}.*save the model in",
        )
        for prefix in (
            *("module.", "_orig_mod.", "module._orig_mod.", "question_encoder.bert_model.", "0.auto_model."),
            *("base_model.model.", "_fsdp_wrapped_module."),
        )
    },
    "pointer": (
        written(WEIGHTS, POINTER),
        f"{WEIGHTS} is a Git LFS pointer of 126 bytes, .*run git lfs pull",
    ),
    "tokenizer's pointer": (written("tokenizer.json", POINTER), "tokenizer.json is a Git LFS pointer"),
    "cut off": (cut_off, f"{WEIGHTS} is damaged or cut off; copy it again"),
    "no safetensors": (written(WEIGHTS, "PK"), f"{WEIGHTS} is damaged or cut off; copy it again"),
    "no JSON": (written("config.json", "{"), "config.json is not an object of JSON"),
    "no object": (written("config.json", "[]"), "config.json is not an object of JSON"),
    "missing shard": (
        without_a_shard,
        r"model-00001-of-0000\d.safetensors is missing beside model.safetensors.index.json",
    ),
    "shard elsewhere": (
        with_a_shard_elsewhere,
        r"../model-00001-of-0000\d.safetensors is missing beside model.safetensors.index.json",
    ),
    "damaged index": (without_an_index, "model.safetensors.index.json is no index of weights; copy it again"),
    "nested JSON": (written("config.json", '{"a":' + "[" * 100_000), "config.json is not an object of JSON"),
    "nested header": (
        lambda folder: (folder / WEIGHTS).write_bytes((1 << 17).to_bytes(8, "little") + b"[" * (1 << 18)),
        f"{WEIGHTS} is damaged or cut off; copy it again",
    ),
    "no tokenizer": (without_tokenizer(), "holds no tokenizer.*; save its tokenizer there too"),
    "quantised": (
        configured(quantization_config={"quant_method": "gptq"}),
        "is quantised; give the model in fl",
    ),
    "int8": (typed(torch.int8), r"is quantised \(.*weight is I8\); give the model in float32"),
    "fp8": (typed(torch.float8_e4m3fn), r"is quantised \(.*weight is F8_E4M3\)"),
    "adapter": (written("adapter_config.json", "{}"), "is an adapter; merge it into its model"),
}
"""Bases whose files alone show that they do not fit, and the line about each."""

LOADED: dict[str, tuple[Change, str]] = {
    "prefix": (prefixed("net."), r"has no weights for (\S+), but for net\.\1; give .* as save_pretrained writes it"),
    "further layers": (with_one_layer, r"has weights for \S+1\S+, which its config.json leaves out"),
    "no layers": (configured(**dict.fromkeys(("num_hidden_layers", "num_layers"), 0)), r"has weights for \S+0\S+, which its config"),
    "missing layer": (
        reweighted(lambda name, weight: None if ".1." in name else (name, weight)),
        r"has no weights for \S+\.1\.\S+; give",
    ),
    "shape": (
        reweighted(lambda name, weight: (name, weight[:300].clone() if len(weight) > 300 else weight)),
        r"has \S+ of shape \[300, \d+\] where its config.json means \[\d+, \d+\]; give",
    ),
    "adapter's weights": (with_adapter, r"has weights for \S+\.0\.\S+\.lora_A, which its config.json leaves out"),
    "NaN": (valued(float("nan")), r"has NaN or infinity in \S+\.1\.\S+; give"),
    "infinity": (valued(float("-inf")), r"has NaN or infinity in \S+\.1\.\S+; give"),
    "code": (with_code, "its weights are a pickle of more than tensors, and nothing else is read from one"),
    "other words": (with_words(28_996 / 30_522), r"has \d+ embeddings, and its tokenizer \d+ tokens; give the tokenizer"),
    "tokens": (with_tokens, r"has (\d+) embeddings, and its tokenizer gives 'newword' the id \1; give the tokenizer"),
    "words": (bert_tokenizer_without_words, "holds no vocabulary of its tokenizer; save its tokenizer there too"),
    "no words": (with_special_tokens_alone, "has a tokenizer that knows no word; give the one that belongs to it"),
    "length": (configured("tokenizer_config.json", model_max_length="x"), "has a tokenizer with model_max_length 'x'; mend it"),
    "damaged tokenizer": (written("tokenizer.json", "{}"), "cannot load its tokenizer"),
}  # fmt: skip
"""Bases that are seen not to fit when they are loaded: by their weights, and by their tokenizers."""
ENCODERS = {
    "empty words": (
        reweighted(
            lambda name, weight: (name, torch.zeros_like(weight) if "word_embeddings" in name else weight)
        ),
        r"has word embeddings that are all 0\.0; give an encoder such as BERT",
    )
}
"""Encoders that are seen not to fit when they are loaded."""
TOKENIZERS = ("other words", "words", "no words", "length", "damaged tokenizer")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {setting: make(tmp_path_factory.mktemp("bases") / "base") for setting, make in MAKE.items()}


def load(setting: str, base: Path | str, output: Path) -> None:
    """What the first step that loads the base does."""
    settings = Config.partial({"model": Model(base=str(base)), "generation": Generation(model=str(base))})
    output.mkdir(exist_ok=True)
    if setting in (TEACHER, RERANKER):
        with staged_base(str(base), setting) as folder:
            CrossEncoder(Path(folder), Encode(), str(base), setting)
    else:
        step, name = (initial_model, "model") if setting == BASE else (initial_generator, "generator")
        step(StepContext(settings, {}, {name: output}, RecordedEvents()))


@contextmanager
def refused(setting: str, base: Path | str, line: str) -> Iterator[None]:
    with pytest.raises(InputError, match=f"^{setting}: (?:cannot load )?.*{line}") as error:
        yield
    assert str(base) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        *((BASE, kind) for kind in (*FILES, *LOADED, *ENCODERS)),
        *((setting, "module.") for setting in (GENERATOR, TEACHER, RERANKER)),
        *((setting, kind) for setting in (GENERATOR, TEACHER) for kind in LOADED if kind not in TOKENIZERS),
    ],
)
def test_a_base_is_refused_by_its_files_or_when_it_is_loaded(
    bases: dict[str, Path], setting: str, kind: str, tmp_path: Path
) -> None:
    base, (change, line) = tmp_path / "base", (FILES | LOADED | ENCODERS)[kind]
    change(Path(shutil.copytree(bases[setting], base)))
    if kind in FILES:
        with refused(setting, base, line):
            base_fingerprint(str(base), setting)
    with refused(setting, base, line):
        load(setting, base, tmp_path / "output")
    assert not list((tmp_path / "output").iterdir()) and not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("setting", "given", "line"),
    [
        (
            BASE,
            GENERATOR,
            r"t5 \(T5ForConditionalGeneration\), an encoder-decoder; give an encoder such as BERT",
        ),
        (
            BASE,
            "encoder",
            r"t5 \(T5EncoderModel\); give an encoder such as BERT",
        ),
        (GENERATOR, "encoder", r"t5 \(T5EncoderModel\); give a sequence-to-sequence model such as T5"),
        (GENERATOR, BASE, r"bert \(BertModel\); give a sequence-to-sequence model such as T5"),
        (TEACHER, BASE, r"bert \(BertModel\); give a model trained as a cross-encoder"),
    ],
)
def test_a_base_of_another_kind_is_refused(
    bases: dict[str, Path], setting: str, given: str, line: str, tmp_path: Path
) -> None:
    line = f"is of type {line}"
    if given == "encoder":
        bases = {given: tmp_path / "base"}
        T5EncoderModel(T5Config.from_pretrained(tiny_t5(tmp_path / "t5"))).save_pretrained(bases[given])
        (bases[given] / "tokenizer.json").write_text("{}")
    with refused(setting, bases[given], line):
        base_fingerprint(str(bases[given]), setting)
    with refused(setting, bases[given], line):
        load(setting, bases[given], tmp_path / "output")


def test_a_base_in_a_bucket_is_refused_by_its_files(bases: dict[str, Path], tmp_path: Path) -> None:
    memory, change = fsspec.filesystem("memory"), FILES["module."][0]
    change(Path(shutil.copytree(bases[BASE], tmp_path / "base")))
    memory.put(str(tmp_path / "base"), "/broken/base", recursive=True)
    with refused(BASE, "memory://broken/base", "the names of its weights begin with module."):
        base_fingerprint("memory://broken/base")


def vectors(folder: Path) -> Weights:
    return BiEncoder.create(Model(base=str(folder), tied=True)).state_dict()


def test_a_base_that_fits_is_loaded_whole(bases: dict[str, Path], tmp_path: Path) -> None:
    """With heads, with or without a pooler, in shards, in half precision."""
    bert = bases[BASE]
    expected = vectors(bert)

    def copied(name: str, save: Callable[[Path], object]) -> Path:
        folder = Path(shutil.copytree(bert, tmp_path / name))
        (folder / WEIGHTS).unlink()
        save(folder)
        return folder

    whole = BertForPreTraining(BertConfig.from_pretrained(bert))
    whole.bert.load_state_dict(load_file(bert / WEIGHTS), strict=False)
    headed = copied("headed", whole.save_pretrained)
    assert {name.partition(".")[0] for name in load_file(headed / WEIGHTS)} == {"bert", "cls"}
    sharded = copied("sharded", lambda folder: whole.bert.save_pretrained(folder, max_shard_size="100KB"))
    assert len(list(sharded.glob("*.safetensors"))) > 1
    for folder in (headed, sharded):
        found = vectors(folder)
        assert found.keys() == expected.keys() and all(
            torch.equal(found[name], expected[name]) for name in found
        )
    for dtype in (torch.float16, torch.bfloat16):
        model = BertModel.from_pretrained(bert, dtype=dtype)
        found = vectors(copied(str(dtype), model.save_pretrained))
        assert all(
            torch.equal(found[name], expected[name].to(dtype).float()) for name in found if "word" not in name
        )


def test_weights_in_shards_are_whole_by_the_index_that_is_read(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    """Which may name its shards as paths; an index of other weights, left behind by a partial download, is not read."""
    base = shutil.copytree(bases[BASE], tmp_path / "base")
    weights = load_file(base / WEIGHTS)
    in_shards(base)
    index = base / f"{WEIGHTS}.index.json"
    index.write_text(index.read_text().replace("model-0", "./model-0"))
    load(BASE, base, tmp_path / "output")
    for shard in base.glob("model-*.safetensors"):
        shard.unlink()
    torch.save(weights, base / "pytorch_model.bin")
    load(BASE, base, tmp_path / "other")


def test_what_a_forward_pass_returns_is_not_the_makers_choice(bases: dict[str, Path], tmp_path: Path) -> None:
    base = Path(shutil.copytree(bases[BASE], tmp_path / "base"))
    expected = vectors(base)
    configured(output_attentions=True, return_dict=False)(base)
    load(BASE, base, tmp_path / "output")
    assert vectors(base).keys() == expected.keys()


@pytest.mark.parametrize("gap", [False, True])
def test_no_viewer_token_takes_a_word_s_place(bases: dict[str, Path], tmp_path: Path, gap: bool) -> None:
    """`tokenizers` numbers a new token by how many there are, fewer than the ids where a word is twice in the vocabulary."""
    base = Path(shutil.copytree(bases[BASE], tmp_path / "base"))
    made = json.loads((base / "tokenizer.json").read_text())
    vocab = made["model"]["vocab"]
    del vocab[[*vocab][-3 if gap else -1]]  # the last id is free, or one before it
    (base / "tokenizer.json").write_text(json.dumps(made))
    tokenizer = AutoTokenizer.from_pretrained(base)
    assert len(tokenizer) == len(vocab)
    model = Model(base=str(base), architecture="camvr", views=2)
    if gap:
        with pytest.raises(InputError, match="would have the id of .*: its tokenizer has a token twice"):
            BiEncoder.create(model)
    else:
        BiEncoder.create(model)


def test_a_special_token_without_an_embedding_is_drawn_from_the_seed(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    """As in EmbeddingGemma, whose tokenizer has a token of images: no text holds it."""
    base = Path(shutil.copytree(bases[BASE], tmp_path / "base"))
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    tokenizer.save_pretrained(base)
    first, second = vectors(base), vectors(base)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_tokenizer_may_have_a_few_tokens_fewer_than_there_are_embeddings(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    """As Phi's; cased BERT's 28,996 for the 30,522 embeddings of uncased BERT are refused above."""
    with_words(50_295 / 51_200)(Path(shutil.copytree(bases[BASE], tmp_path / "base")))
    assert vectors(tmp_path / "base")
