"""A BERT small enough for tests: 2 layers, 64 wide unless told, random weights, an English WordPiece vocabulary."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_WORDS = """
the of and to in a is was were are be been by for with on at from as that this it its he she they
his her their who what when where which how many much did does do has have had not or but an one two
three four five six seven eight nine ten first second third last new old great small large long high
year years day time war world city country state river mountain sea ocean island north south east
west king queen president government army battle church school university college student students
team game season player players league cup final music album song band film book books author writer
art science theory law court century people population language english french german latin roman
greek american british european african asian chinese indian name names called known used part parts
number water air light energy heat oxygen gas carbon iron gold silver metal plant plants animal
animals cell cells body human food oil coal power steam engine train road bridge house building
buildings park garden tower wall street market trade company money tax price bank party election
vote member members group groups family father mother son daughter brother children woman women man
men life death born died founded built made won lost began ended became moved wrote played found
discovered invented developed produced said believed thought considered included between during
after before under over into through against about around because although however while than then
also other others some most all both each every several such only same different important common
major main largest smallest highest lowest longest oldest newest famous early late modern ancient
medieval tesla newton einstein beyonce chopin luther victoria paris london rome berlin warsaw
normandy california texas florida york boston chicago denver carolina super bowl
"""


def tiny_bert(folder: Path, seed: int = 0, width: int = 64) -> Path:
    """Write a tiny random BERT with its tokenizer into `folder` and return it; the same bytes for the same seed."""
    import torch
    from transformers import BertConfig, BertModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    fast = tiny_tokenizer()
    config = BertConfig(
        vocab_size=len(fast),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=512,
        # Wider than BERT's 0.02, so that a random model tells texts apart.
        initializer_range=0.1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BertModel(config, add_pooling_layer=False)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def tiny_t5(folder: Path, seed: int = 0, width: int = 32) -> Path:
    """Write a tiny random T5 of 2 layers with its tokenizer into `folder` and return it; the same bytes for the same seed."""
    import torch
    from tokenizers.processors import TemplateProcessing
    from transformers import T5Config, T5ForConditionalGeneration
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    fast = tiny_tokenizer(eos_token="[SEP]")
    end = fast.convert_tokens_to_ids("[SEP]")
    fast.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP]", special_tokens=[("[SEP]", end)]
    )
    config = T5Config(
        vocab_size=len(fast),
        d_model=width,
        d_kv=width // 4,
        d_ff=2 * width,
        num_layers=2,
        num_heads=4,
        pad_token_id=fast.pad_token_id,
        eos_token_id=end,
        decoder_start_token_id=fast.pad_token_id,  # pyright: ignore[reportCallIssue]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def tiny_tokenizer(**special: str) -> "PreTrainedTokenizerFast":
    """An English WordPiece tokenizer of some 600 pieces, which adds no tokens of its own."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    marks = list(".,;:!?'\"()[]-–—/%$&’")
    endings = ["s", "ed", "ing", "er", "ly", "ion", "al", "ian"]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *marks, *letters, *_WORDS.split()]
    pieces = list(dict.fromkeys([*pieces, *(f"##{piece}" for piece in [*letters, *endings])]))
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=512,
        **special,
    )
