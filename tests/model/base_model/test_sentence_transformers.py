"""A base in a folder of sentence-transformers is used as its makers use it."""

import json
import shutil
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from multiview.config import Encode, Model
from multiview.data.passages import Passage
from multiview.encoding.encode import Encoder
from multiview.errors import InputError
from multiview.export.onnx import write_onnx
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.encoder import BiEncoder
from tests.fixtures.bases import random_base
from tests.fixtures.payload import Payload
from tests.fixtures.sentence_transformers_base import CHAINS, frame_texts, framed_base, save_base

TEXTS = ["The king won a castle", "Oxygen", "the queen’s [year] " * 40, ""]
PASSAGES = [
    Passage(str(i), title, text, (len(text),)) for i, text in enumerate(TEXTS) for title in ("", "Old tower")
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return framed_base(tmp_path_factory.mktemp("bare"))


def encoder(base: Path | str, folder: Path, **options: Any) -> Encoder:
    """The base as architecture sentence-transformer, saved and loaded."""
    options = {"architecture": "sentence-transformer", "passage_length": 64, "question_length": 32, **options}
    BiEncoder.create(Model(base=str(base), **options)).save(folder)
    return Encoder(folder, Encode())


def vectors(encoder: Encoder) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of questions, without the model's scale, and those of passages."""
    questions = encoder.question_vectors(TEXTS) / encoder.model.scale
    sequences = [(sequence, i) for i, p in enumerate(PASSAGES) for sequence in encoder.layout.passage(p)]
    found = {i: rows[0] for _, i, rows in encoder.passages(sequences)}
    return questions, np.stack([found[i] for i in range(len(PASSAGES))])


def assert_same(ours: Encoder, made: Any, atol: float = 1e-5, texts: int | None = None) -> None:
    """That our vectors are the makers', of the first `texts` where that is given."""
    for given, expected in zip(vectors(ours), of_makers(made), strict=True):
        np.testing.assert_allclose(given[:texts], expected[:texts], atol=atol)


def of_makers(made: Any) -> tuple[np.ndarray, np.ndarray]:
    options = {"normalize_embeddings": made.similarity_fn_name == "cosine"}
    longest = made.max_seq_length
    made.max_seq_length = min(32, longest)
    questions = made.encode_query(TEXTS, **options)
    made.max_seq_length = min(64, longest)
    documents = [f"{p.title} {p.text}" if p.title else p.text for p in PASSAGES]
    return questions, made.encode_document(documents, **options)


VARIANTS = [
    (pooling, chain, ("dot", "cosine")[(p + c) % 2], bool((p + c // 2) % 2))
    for p, pooling in enumerate(("mean", "cls", "lasttoken"))
    for c, chain in enumerate(CHAINS)
]
"""Every chain behind every pooling, each with both similarities and with one encoder and two."""


@pytest.mark.parametrize(("pooling", "chain", "similarity", "tied"), VARIANTS)
def test_vectors_are_those_of_sentence_transformers(bare, tmp_path, pooling, chain, similarity, tied):
    made = save_base(tmp_path / "base", bare, pooling, chain, similarity_fn_name=similarity)
    assert_same(encoder(tmp_path / "base", tmp_path / "model", tied=tied), made)


def test_a_bare_folder_is_used_by_the_mean_as_sentence_transformers_does(bare, tmp_path):
    assert_same(encoder(bare, tmp_path / "model"), SentenceTransformer(str(bare), device="cpu"))


def test_a_bare_causal_model_is_used_by_its_last_token(tmp_path):
    base = random_base(tmp_path / "base", "qwen3")
    config, of_tokens = (json.loads((base / f"{name}config.json").read_text()) for name in ("", "tokenizer_"))
    write(base / "config.json", config | {"architectures": ["Qwen3ForCausalLM"]})
    assert_same(encoder(base, tmp_path / "model"), SentenceTransformer(str(base), device="cpu"))
    write(base / "tokenizer_config.json", of_tokens | {"chat_template": "{{ messages }}"})
    with pytest.raises(InputError, match="reads texts through a chat template"):
        encoder(base, tmp_path / "other")
    write(base / "tokenizer_config.json", of_tokens)
    (base / "chat_template.jinja").write_text("{{ messages }}")  # as transformers 5 saves it
    with pytest.raises(InputError, match="reads texts through a chat template"):
        encoder(base, tmp_path / "other")


@pytest.mark.parametrize(("kind", "options"), [("squeezebert", {"embedding_size": 32}), ("layoutlm", {})])
def test_a_base_that_calls_its_pooler_is_read(tmp_path, kind, options):
    base = random_base(tmp_path / "base", kind, **options)
    made = SentenceTransformer(str(base), device="cpu")
    assert_same(encoder(base, tmp_path / "model"), made, texts=3)  # the last has no tokens


def test_a_cased_tokenizer_of_a_named_class_stays_lower_cased_once_saved(tmp_path):
    """transformers builds its classes' normalizers anew, whatever the file says."""
    base = tmp_path / "base"
    save_base(base, random_base(tmp_path / "bare", "bert"), width=32)
    of_tokens = json.loads((base / TOKENIZER).read_text())
    write(base / TOKENIZER, of_tokens | {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    tokenizer = AutoTokenizer.from_pretrained(base)
    write(base / "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": True})
    write(base / TOKENIZER, of_tokens | {"truncation_side": "left"})
    with pytest.raises(InputError, match="its tokenizer cuts texts at the left"):
        encoder(base, tmp_path / "other")
    write(base / TOKENIZER, of_tokens | {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    made = SentenceTransformer(str(base), device="cpu")
    ours = encoder(base, tmp_path / "model")
    assert type(tokenizer).__name__ == "BertTokenizer"
    assert ours.model.tokenizer.tokenize("KING") == tokenizer.tokenize("king")
    assert_same(ours, made, texts=3)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_what_an_old_folder_says_of_its_tokens_is_read(bare, tmp_path, kind):
    folder = tmp_path / "base"
    save_base(folder, bare, "cls", "normalised")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.normalizer = None
    tokenizer.save_pretrained(folder)
    (folder / "sentence_bert_config.json").unlink()
    write(folder / f"sentence_{kind}_config.json", {"max_seq_length": 20, "do_lower_case": True})
    modes = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "lasttoken")
    legacy = {f"pooling_mode_{mode}": mode == "cls_token" for mode in modes}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 64, **legacy})
    old = [
        {
            "idx": i,
            "name": str(i),
            "type": f"sentence_transformers.models.{kind}",
            "path": (i and f"{i}_{kind}") or "",
        }
        for i, kind in enumerate(("Transformer", "Pooling", "Normalize"))
    ]
    write(folder / "modules.json", old)
    ours = encoder(folder, tmp_path / "model")
    made = SentenceTransformer(str(folder), device="cpu")
    assert len(ours.layout.question(TEXTS[2]).input_ids) == made.max_seq_length == 20
    assert_same(ours, made)


MODULES, POOLING, DENSE = "modules.json", "1_Pooling/config.json", "2_Dense/config.json"
WEIGHTS, TOKENIZER = "2_Dense/model.safetensors", "tokenizer_config.json"
MAKERS, TRANSFORMER = "config_sentence_transformers.json", "sentence_bert_config.json"
OF_LAYERS = {"modality_config": {"text": {"method": "forward", "method_output_name": ["hidden_states", 1]}}}


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (MODULES, "[{", ".*base: modules.json is not JSON"),
        (MODULES, "[" * 100_000, "modules.json is not JSON"),
        (
            MODULES,
            [{"type": "sentence_transformers.models.Pooling", "path": "../x"}],
            "does not list modules",
        ),
        (MODULES, [{"type": "custom_st.Transformer", "path": ""}], "its modules are custom_st.Transformer;"),
        (MODULES, [{"type": "sentence_transformers.models.Transformer"}], "its modules are Transformer;"),
        (POOLING, {"pooling_mode": "weightedmean"}, "pooling weightedmean is none of cls, mean"),
        (POOLING, {"pooling_mode": ["cls", "mean"]}, "pooling .*is none of"),
        (POOLING, {"pooling_mode": [["cls"]]}, "pooling .*is none of"),
        (POOLING, "[" * 100_000, "1_Pooling/config.json is not JSON"),
        (POOLING, None, "Pooling has no config.json"),
        ("config.json", "[" * 100_000, "config.json is not an object of JSON"),
        (DENSE, {"activation_function": "os.system"}, "2_Dense: .* os.system"),
        (DENSE, {"out_features": 3}, "dense layers are not those of its config.json"),
        (
            DENSE,
            {"out_features": 24, "in_features": 64, "bias": False},
            "dense layers .*: 2_Dense has .*linear.bias",
        ),
        (
            DENSE,
            {"out_features": 24, "in_features": 48},
            "dense layers .*: 2_Dense has .* for vectors of length 64",
        ),
        (DENSE, {"out_features": 24, "use_residual": True}, "2_Dense: .* residual is not known"),
        (DENSE, {"out_features": True}, "describes no dense layer"),
        (WEIGHTS, None, "cannot read 2_Dense/model.safetensors"),
        (WEIGHTS, "x", "cannot read 2_Dense/model.safetensors"),
        (MAKERS, {"model_type": "CrossEncoder"}, "it is a CrossEncoder"),
        (MAKERS, {"similarity_fn_name": "euclidean"}, "similarity euclidean"),
        (MAKERS, {"prompts": ["query: "]}, "prompts does not map"),
        (MAKERS, {"truncate_dim": 16}, "truncate_dim is not supported"),
        (TRANSFORMER, {"query_expansion": {"length": 32}}, "query_expansion is not supported"),
        (TRANSFORMER, {"query_length": 8}, "query_length is not supported"),
        (TRANSFORMER, {"max_seq_length": 256.0}, "its max_seq_length is 256.0; write a whole number"),
        (TRANSFORMER, {"max_seq_length": 0}, "it reads 0 tokens of a text: choose another base"),
        (TRANSFORMER, {"config_kwargs": {"num_hidden_layers": 1}}, "config_kwargs is not"),
        (TRANSFORMER, OF_LAYERS, "modality_config is not supported"),
        (TRANSFORMER, {"transformer_task": "fill-mask"}, "transformer_task is not supported"),
        (TOKENIZER, {"truncation_side": "left"}, "its tokenizer cuts texts at the left"),
        (TOKENIZER, {"model_max_length": 15}, "it reads 15 tokens of a text: choose another base"),
    ],
)
def test_a_folder_of_another_form_is_refused_with_its_name(bare, tmp_path, file, content, message):
    save_base(tmp_path / "base", bare, "mean", "dense")
    path = tmp_path / "base" / file
    if content is None:
        path.unlink()
    else:
        write(path, json.loads(path.read_text()) | content if file == TOKENIZER else content)
    with pytest.raises(InputError, match=f"^model.base: .*{message}"):
        BiEncoder.create(Model(base=str(tmp_path / "base"), architecture="sentence-transformer"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight * float("nan"), "gives vectors with NaN or infinity"),
        (lambda weight: weight.to(torch.int8), "2_Dense/model.safetensors holds quantised weights"),
        (lambda weight: weight if weight.ndim > 1 else None, "2_Dense has .* where they mean .*linear.bias"),
    ],
)
def test_dense_layers_that_make_no_vectors_are_refused(bare, tmp_path, change, message):
    save_base(tmp_path / "base", bare, "mean", "dense")
    file = tmp_path / "base" / "2_Dense" / "model.safetensors"
    changed = {name: change(weight) for name, weight in load_file(file).items()}
    save_file({name: weight for name, weight in changed.items() if weight is not None}, file)
    with pytest.raises(InputError, match=f"^model.base: .*{message}"):
        BiEncoder.create(Model(base=str(tmp_path / "base"), architecture="sentence-transformer"))


def test_settings_against_the_makers_are_refused(bare, tmp_path):
    save_base(tmp_path / "base", bare, "cls", similarity_fn_name="dot")
    for options in ({"pooling": "snippet"}, {"normalise": True}):
        with pytest.raises(
            InputError, match=f"model.{min(options)}: .*; leave it out, or use architecture dpr"
        ):
            encoder(tmp_path / "base", tmp_path / "model", **options)


def test_the_files_of_modules_are_part_of_a_base_wherever_it_lies(bare, tmp_path):
    folder = tmp_path / "base"
    made = save_base(folder, bare, "mean", "dense")
    remote = fsspec.filesystem("memory")
    remote.put(f"{folder}/", "/bases/dense", recursive=True)
    for number, name in enumerate((str(folder), "memory://bases/dense")):
        with staged_base(name) as staged:
            assert {"1_Pooling/config.json", "2_Dense/model.safetensors"} <= files_in(Path(staged)), name
        ours = vectors(encoder(name, tmp_path / f"model-{number}"))
        np.testing.assert_allclose(ours[0], of_makers(made)[0], atol=1e-5)
    before = base_fingerprint(str(folder)), base_fingerprint("memory://bases/dense")
    write(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    remote.put(f"{folder}/1_Pooling/config.json", "/bases/dense/1_Pooling/config.json")
    after = base_fingerprint(str(folder)), base_fingerprint("memory://bases/dense")
    assert before[0] != after[0] and before[1] != after[1]


def test_a_dense_layer_is_read_from_safetensors_alone(bare, tmp_path):
    folder = tmp_path / "base"
    save_base(folder, bare, "mean", "dense")
    layer = folder / "2_Dense"
    before = base_fingerprint(str(folder))
    torch.save({"w": Payload(tmp_path / "mark")}, layer / "pytorch_model.bin")
    assert base_fingerprint(str(folder)) == before
    (layer / "model.safetensors").unlink()
    with (
        staged_base(str(folder)),
        pytest.raises(
            InputError, match=r"^model\.base: cannot read 2_Dense/model\.safetensors .*; save the model anew"
        ),
    ):
        encoder(folder, tmp_path / "model")
    assert not (tmp_path / "mark").exists()


def write(file: Path, content: Any) -> None:
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_its_questions_in_onnx_are_the_same(bare, tmp_path):
    save_base(tmp_path / "base", bare, "lasttoken", "two-dense", similarity_fn_name="dot")
    ours = encoder(tmp_path / "base", tmp_path / "model", tied=True)
    write_onnx(tmp_path / "model", tmp_path / "onnx")
    tokens = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode_batch(TEXTS)
    inputs = {
        "input_ids": np.array([each.ids for each in tokens]),
        "attention_mask": np.array([each.attention_mask for each in tokens]),
    }
    session = InferenceSession(tmp_path / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.run(["vector"], inputs)
    np.testing.assert_allclose(np.asarray(given), ours.question_vectors(TEXTS), atol=1e-4)


PROMPTS = {"query": "who: ", "document": "the old city: ", "passage": "not this one"}


@pytest.mark.parametrize(
    ("kind", "pooling", "include_prompt"),
    [
        *(
            ("bert", "mean", True),
            ("bert", "mean", False),
            ("roberta", "mean", False),
            ("xlm-roberta", "mean", True),
        ),
        *(("xlm-roberta", "mean", False), ("roberta", "cls", False), ("roberta", "lasttoken", False)),
    ],
)
def test_texts_begin_with_the_makers_prompts(tmp_path, kind, pooling, include_prompt):
    bare = random_base(tmp_path / "bare", kind)
    tokenizer = AutoTokenizer.from_pretrained(bare)
    frame_texts(tokenizer)
    tokenizer.save_pretrained(bare)
    options = {"include_prompt": include_prompt, "prompts": PROMPTS, "similarity_fn_name": "dot"}
    made = save_base(tmp_path / "base", bare, pooling, width=32, **options)
    ours = encoder(tmp_path / "base", tmp_path / "model")
    assert_same(ours, made)
    plain = encoder(tmp_path / "base", tmp_path / "plain", question_prompt="", passage_prompt="")
    made.prompts.update(dict.fromkeys(made.prompts, ""))
    assert_same(plain, made)
    for given, other in zip(vectors(plain), vectors(ours), strict=True):
        assert abs(given - other).max(axis=1).min() > 1e-3


@pytest.mark.parametrize(
    ("made", "prompts"),
    [
        ({"model_type": "MultiVectorEncoder", "prompts": PROMPTS}, PROMPTS),
        ({"model_type": "SparseEncoder", "prompts": PROMPTS}, PROMPTS),
        ({"model_type": "CrossEncoder", "prompts": PROMPTS}, {}),
        ({"query_prefix": "asked ", "document_prefix": "read "}, {"query": "asked ", "document": "read "}),
        (
            {"model_type": "ColBERT", "query_prefix": "asked ", "prompts": {"query": "asked king "}},
            {"query": "asked king "},
        ),
    ],
)
@pytest.mark.parametrize("architecture", ["camvr", "dpr"])
def test_the_prompts_of_other_makers_are_those_of_their_texts(bare, tmp_path, architecture, made, prompts):
    base = tmp_path / "base"
    shutil.copytree(bare, base)
    write(base / "config_sentence_transformers.json", made)
    write(base / "modules.json", [{"type": "sentence_transformers.base.modules.Transformer", "path": ""}])
    layout = BiEncoder.create(Model(base=str(base), architecture=architecture)).layout
    expected = (prompts.get("query", ""), prompts.get("document", ""))
    assert (layout.question_prompt, layout.passage_prompt) == expected


@pytest.mark.parametrize("end", ["[SEP]", "[MASK]"])
def test_texts_of_a_causal_base_end_with_the_token_of_its_own_tokenizer(tmp_path, end):
    """Which may be another than its `eos_token`."""
    base = random_base(tmp_path / "base", "qwen3")
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = [(end, tokenizer.convert_tokens_to_ids(end))]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=ids)
    tokenizer.save_pretrained(base)
    written = json.loads((base / "tokenizer_config.json").read_text())
    roles = {"cls_token": None, "sep_token": None, "eos_token": "[SEP]"}
    write(base / "tokenizer_config.json", written | roles)
    made = save_base(tmp_path / "made", base, "lasttoken", "normalised", width=32)
    ours = encoder(tmp_path / "made", tmp_path / "model", architecture="dpr", pooling="last", normalise=True)
    np.testing.assert_allclose(vectors(ours)[0][:2], made.encode_query(TEXTS[:2]), atol=1e-5)


def test_texts_begin_with_the_token_of_the_base_s_own_tokenizer_though_it_has_no_name(tmp_path):
    base = random_base(tmp_path / "base", "bert")
    tokenizer = AutoTokenizer.from_pretrained(base)
    ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ids
    )
    tokenizer.save_pretrained(base)
    written = json.loads((base / TOKENIZER).read_text())
    write(base / TOKENIZER, written | {"cls_token": None, "bos_token": None})
    made = save_base(tmp_path / "made", base, "mean", width=32)
    ours = encoder(tmp_path / "made", tmp_path / "model", architecture="dpr", pooling="snippet")
    np.testing.assert_allclose(vectors(ours)[0][:2], made.encode_query(TEXTS[:2]), atol=1e-5)
