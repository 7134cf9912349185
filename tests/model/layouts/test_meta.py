"""MetaEmbed: viewer tokens after the text."""

from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.model.batch import make_batch
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import layout
from tests.fixtures.bases import random_base
from tests.fixtures.laid_out import PASSAGE, make, tokens, view


def test_meta_tokens_stand_behind_the_text_whatever_its_length(base: Path) -> None:
    made = make(base, "meta")
    viewers = "[VIE1] [VIE2] [VIE3] [VIE4]"
    (sequence,) = made.passage(PASSAGE)
    text = "[CLS] old e ##u ##r ##o ##p ##e [SEP] the king won . it was in paris . queen . [SEP]"
    assert tokens(made, sequence.input_ids) == f"{text} {viewers}"
    assert sequence.position_ids is None
    assert sequence.views == tuple(view((i, i + 1)) for i in range(21, 25))
    (long,) = made.passage(Passage("p", "Old", "king " * 100, (500,)))
    assert len(long.input_ids) == 64 and tokens(made, long.input_ids).endswith(f"king [SEP] {viewers}")
    asked = made.question("Who won?" + " king" * 200)
    assert len(asked.input_ids) == 128 and tokens(made, asked.input_ids).endswith("king [SEP] [VIE]")
    assert asked.views == (view((127, 128)),)


def causal_base(folder: Path) -> Path:
    """A base of Qwen3's kind, whose tokenizer has neither [CLS] nor [SEP], but a token that ends a text."""
    random_base(folder, "qwen3")
    loaded = AutoTokenizer.from_pretrained(folder)
    made = PreTrainedTokenizerFast(
        tokenizer_object=loaded.backend_tokenizer, eos_token="[MASK]", pad_token="[PAD]", unk_token="[UNK]"
    )
    made.save_pretrained(folder)
    return folder


def test_without_cls_and_sep_a_text_is_title_text_and_its_end(tmp_path: Path) -> None:
    base = causal_base(tmp_path)
    for name, behind, asked in (("dpr", "", ""), ("meta", " [VIE1] [VIE2] [VIE3] [VIE4]", " [VIE]")):
        made = make(base, name, pooling="last" if name == "dpr" else "viewer")
        (sequence,) = made.passage(PASSAGE)
        text, who = (tokens(made, ids) for ids in made._tokens([f"Old Europe {PASSAGE.text}", "Who won?"]))
        assert tokens(made, sequence.input_ids) == f"{text} [MASK]{behind}"
        question = made.question("Who won?")
        assert tokens(made, question.input_ids) == f"{who} [MASK]{asked}"
        last = len(question.input_ids)
        assert question.views == (view((last - 1, last)),)


def test_in_a_causal_model_the_first_views_are_those_of_a_model_with_fewer(tmp_path: Path) -> None:
    base = causal_base(tmp_path)
    model = BiEncoder.create(Model(base=str(base), architecture="meta", views=4, passage_length=64))
    fewer = layout(model.settings.model_copy(update={"views": 2}), model.tokenizer)
    pad = model.tokenizer.pad_token_id
    with torch.inference_mode():
        all_views, first = (
            model.encode_passages(make_batch(made.passage(PASSAGE), pad, made.max_views))[0]
            for made in (model.layout, fewer)
        )
    torch.testing.assert_close(all_views[:2], first)
    assert (all_views[1:] - all_views[:-1]).abs().amax(dim=1).min() > 1e-4, "views differ"
