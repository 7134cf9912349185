"""The studies that come with multiview: they compile, vary what the papers vary, and have the papers' figures."""

import pytest

from multiview.config.documents import document_names
from multiview.config.overrides import gather, validate
from multiview.model.systems import resolve
from multiview.plans import PIPELINES
from pipelines.runs.study import read_study


def test_the_study_of_snippet_means_has_the_systems_of_squad_small():
    systems = validate(gather("squad-small", [])).comparison.systems
    runs = read_study("snippet-means").runs
    assert {row: runs[row] for row in systems} == systems
    assert [*runs] == [*systems, "answer-alone", "max-alone", "scale-20", "annealed", "one-round"]
    assert next(iter(systems)) == "snippet-means", "against which the others are tested"


NUMBERS = {
    "local-loss": ("train.local_weight", [0.01, 0.5, 0.05, 0.001, 0.0]),
    "mined-negatives": ("train.rounds", [2, 1, 2, 1]),
    "one-question": ("questions.one_per_passage", [False, False, True, True]),
    "tied": ("model.tied", [False, True, False, True]),
    "dual-cross-tied": ("model.tied", [True, False, True, False]),
    "dual-cross-warm-up": ("train.rounds", [0, 1, 1, 0, 1, 1]),
    "sentences": (
        "model.architecture",
        ["dpr", "mvr", "sentence", "equal-splits", "equal-splits"],
    ),
    "views": ("model.views", [8, 4, 8, 1, 4, 6, 8, 12, 1, 4, 8, 12]),
    "seeds": ("train.seed", [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_study_varies_what_the_paper_varies(name):
    setting, expected = NUMBERS[name]
    section, leaf = setting.split(".")
    configs = [resolve(overrides) for overrides in read_study(name).overrides({}).values()]
    assert [getattr(getattr(config, section), leaf) for config in configs] == expected


def test_one_question_is_asked_or_all_whatever_the_preset_says():
    for preset in ("paper-camvr", "squad-viewers"):
        rows = read_study("one-question").overrides(gather(preset, []))
        asked = {row: resolve(overrides).questions.one_per_passage for row, overrides in rows.items()}
        assert asked == {"mvr": False, "camvr": False, "mvr-avq1": True, "camvr-avq1": True}


def test_the_study_of_temperatures_has_the_paper_s():
    trained = [resolve(overrides).train for overrides in read_study("temperature").overrides({}).values()]
    found = [train.temperature for train in trained]
    annealed = [t.alpha for t in found if t.schedule == "annealed"]
    fixed = [t.value for t in found if t.schedule == "fixed"]
    assert (annealed, fixed) == ([0.1, 0.3, 0.03], [10, 1, 1, 0.3, 0.1]) and {t.floor for t in found} == {0.3}
    assert [train.local_weight for train in trained].index(0) == 5, "MVR Table 3 (3): neither of the two"


@pytest.mark.parametrize("name", sorted({*document_names("study")} - {"snippet-means", "comparison-seeds"}))
def test_only_the_study_of_mined_negatives_mines_them(name):
    """MVR 4.2: ablations are "built only with the raw DPR model"; CAMVR mines in its section 4.3 alone."""
    overrides = read_study(name).overrides(gather("paper-camvr", []))
    mining = [row for row, changes in overrides.items() if resolve(changes).train.rounds == 2]
    assert mining == (["camvr", "mvr"] if name == "mined-negatives" else [])


PRINTED = {
    "CAMVR Table 1, SQuAD dev": ["76.4 84.2 89.8"],
    "CAMVR Table 2, NQ test": ["55.51 73.16 84.35", "63.80 78.70 86.70"],
    "CAMVR Table 5, SQuAD dev": ["61.3 74.5 83.4", "65.2 76.7 84.8", "69.0 79.2 86.0", "69.0 79.2 86.0"],
    "CAMVR Table 6, NQ test": ["70.0 82.5 89.3", "71.1 82.5 89.1"],
    "CAMVR Table 6, SQuAD dev": ["59.1 73.0 82.8", "59.1 73.0 82.8", "69.0 79.2 86.0"],
    "CAMVR Table 8, SQuAD dev": ["77.1 84.5 88.6", "69.0 79.2 86.0"],
    "MVR Table 2, SQuAD dev": [
        *("66.2 76.8 85.2", "66.8 77.6 85.5", "67.3 77.9 86.1", "68.5 78.5 85.8"),
        *("72.3 80.3 86.4", "75.5 83.2 87.9", "74.8 82.9 87.4"),
    ],
    "MVR Table 3 (0), SQuAD dev": ["75.5 83.2 87.9"],
    "MVR Table 3 (1), SQuAD dev": ["73.7 82.1 86.5"],
    "MVR Table 3 (2), SQuAD dev": ["74.3 81.9 86.8"],
    "MVR Table 3 (3), SQuAD dev": ["72.8 81.0 85.8"],
    "MVR Table 3 (4), SQuAD dev": ["66.7 77.1 85.7"],
    "MVR Table 3 (5), SQuAD dev": ["70.2 79.3 85.4"],
    "MVR Table 3 (6), SQuAD dev": ["74.6 82.4 87.3"],
    "MVR Table 3 (7), SQuAD dev": ["72.3 81.2 85.9"],
    "MVR Table 3 (8), SQuAD dev": ["74.7 82.0 87.4"],
    "MVR Table 3 (9), SQuAD dev": ["73.9 81.8 86.5"],
    "MVR Table 5, SQuAD dev": [
        *("66.2 76.8 85.2", "75.5 83.2 87.9", "62.1 73.2 81.9", "57.2 69.3 78.5", "44.2 57.9 69.4"),
    ],
    "MVR Table 8, SQuAD dev": ["75.5 83.2 87.9", "72.4 80.4 85.9", "74.7 82.5 87.3", "72.9 82.2 85.7"],
    "Dual Cross Encoder Table 2, MS MARCO dev": ["25.6", "31.4", "34.2", "26.1", "33.2", "36.0"],
    "Dual Cross Encoder Table 4, MS MARCO dev": ["31.4", "31.7", "33.2", "33.8"],
}
"""Rows of the papers' tables, as printed, in the order of the studies: R@5, R@20 and R@100, or MRR@10."""


OURS = (
    *("tied", "made-questions", "made-questions-generator"),
    *("snippet-means", "snippet-means-views", "collapse", "comparison-seeds", "precision"),
)


def test_the_studies_have_the_papers_figures():
    cited: dict[str, list[list[float]]] = {}
    for study in map(read_study, document_names("study")):
        assert set(study.paper) == set(study.runs) or study.name in OURS, "which no paper has"
        for figures in study.paper.values():
            metrics = (
                ["mrr_at_10"] if "MS MARCO" in figures.source else [f"accuracy_at_{k}" for k in (5, 20, 100)]
            )
            assert list(figures.figures) == metrics
            cited.setdefault(figures.source, []).append(list(figures.figures.values()))
    printed = {source: [[*map(float, row.split())] for row in rows] for source, rows in PRINTED.items()}
    assert {source: sorted(rows) for source, rows in cited.items()} == {
        source: sorted(rows) for source, rows in printed.items()
    }


@pytest.mark.parametrize("name", document_names("study"))
def test_every_study_compiles_and_its_rows_differ(name):
    found = read_study(name)
    base = gather("snippet-means", []) if name == "snippet-means" else {}
    plans = {row: PIPELINES[found.pipeline](overrides) for row, overrides in found.overrides(base).items()}
    # A row that sets its seed itself is one run for all seeds of the study.
    fixed = [name for name, changes in found.runs.items() if "seed" in changes.get("model", {})]
    once = {row for row in plans if row.partition("/")[0] not in fixed or row.endswith("/seed-0")}
    assert found.about and len({str(plan.nodes) for plan in plans.values()}) == len(once) > 1
