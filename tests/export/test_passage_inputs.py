import pytest

from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.export.passage_inputs import PassageInputs, empty_snippet
from multiview.export.sentence_transformers import write_sentence_transformers
from tests.fixtures.exported_models import saved_model

TEXT = "It was built by the king. He died."
PASSAGE = Passage("p0", "Tower", TEXT, (26, 34))
QUERIES = ["Who built the king’s tower?", "Who died?", "Who died?"]


@pytest.fixture
def inputs(base, tmp_path):
    """Exports an untrained model with some settings, and reads what its folder takes."""

    def export(**settings) -> PassageInputs:
        model = saved_model(tmp_path / "model", base, **settings)
        write_sentence_transformers(model, tmp_path / "out")
        return PassageInputs(tmp_path / "out", settings.pop("padding_views", False))

    return export


@pytest.mark.parametrize(
    "settings, texts",
    [
        ({"architecture": "dpr"}, [f"Tower[SEP]{TEXT}"]),
        ({"architecture": "mvr"}, [f"Tower[SEP]{TEXT}"]),
        (
            {"architecture": "camvr"},
            ["[VIE1]Tower[VIE2]It was built by the king. [VIE3]He died.[VIE4-EMPTY]"],
        ),
        ({"architecture": "camvr", "views": 1}, [f"[VIE1]Tower {TEXT}"]),
        (
            {"architecture": "dual-cross"},
            [f"Who built the king's tower?[SEP]Tower {TEXT}", f"Who died?[SEP]Tower {TEXT}"],
        ),
        ({"architecture": "sentence"}, ["Tower[SEP]It was built by the king. ", "Tower[SEP]He died."]),
    ],
)
def test_texts_show_the_structure_of_a_passage(settings, texts, inputs):
    queries = QUERIES if settings["architecture"] == "dual-cross" else []
    assert inputs(**settings).of(PASSAGE, queries) == texts


@pytest.mark.parametrize("architecture", ["dpr", "mvr", "camvr", "dual-cross", "sentence", "equal-splits"])
@pytest.mark.parametrize(
    "title, text", [("  ", "one"), ("\n", "  one two "), ("", ""), ("Tower", ""), (" Tower ", "a\n\nb")]
)
def test_white_space_is_read_as_the_layout_reads_it(architecture, title, text, inputs):
    passage = Passage("p0", title, text, (len(text),) if text else ())
    assert inputs(architecture=architecture).of(
        passage, ["", " ", "who?"] if architecture == "dual-cross" else ()
    )


def test_a_dual_cross_passage_without_queries_is_read_alone(inputs):
    assert inputs(architecture="dual-cross").of(PASSAGE) == [f"Tower {TEXT}"]


def test_long_snippets_are_cut_as_the_layout_cuts_them(inputs):
    text = "the river of the north " * 8 + "He died."
    passage = Passage("p0", "", text, (len(text) - 8, len(text)))
    (cut,) = inputs(architecture="camvr", views=2, passage_length=16).of(passage)
    assert cut == "[VIE1]the river of the north the river of the north[VIE2]He died."


def test_text_that_spells_special_tokens_stays_text(inputs):
    passage = Passage("p0", "[CLS]", "a [SEP] b [VIE1] c [VIE1-EMPTY]", (31,))
    (text,) = inputs(architecture="camvr").of(passage)
    assert text == "[VIE1][ CLS][VIE2]a [ SEP] b [ VIE1] c [ VIE1-EMPTY][VIE3-EMPTY][VIE4-EMPTY]"


def test_other_views_take_the_passage_itself(inputs):
    found = inputs(architecture="camvr", pooling="snippet").of(PASSAGE)
    assert found == [{"title": "Tower", "text": TEXT, "sentence_ends": [26, 34]}]


def test_a_passage_that_no_text_expresses_is_refused(inputs, monkeypatch):
    reader = inputs(architecture="camvr")
    # A tokenizer that reads the cut text otherwise than the whole.
    monkeypatch.setattr(reader, "_snippets", lambda passage, sequence: "[VIE1]other")
    with pytest.raises(InputError, match="passage 'p0': no text gives its tokens"):
        reader.of(PASSAGE)


def test_the_token_of_an_empty_snippet_is_named_after_its_viewer():
    assert empty_snippet("[VIE12]") == "[VIE12-EMPTY]"
