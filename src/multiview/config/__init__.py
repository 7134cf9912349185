"""Every setting, declared and documented once.

A default is the papers' (the SQuAD and NQ experiments of MVR and CAMVR) unless its docstring says *ours*. Presets
and ``--set`` are overrides of these classes. A step receives its sections as one canonical JSON string. Settings marked
with ``UNKEYED`` are not part of artifact keys: they change how a step runs but never its output, or they name sources,
which the key holds by their content.
"""

# Other rooms import all of these from here.
# ruff: noqa: F401

from multiview.config.data import (
    Bm25,
    Corpus,
    DataFormat,
    Generation,
    GeneratorTraining,
    MakeQuestions,
    Questions,
)
from multiview.config.kubeflow import Kubeflow, Notify, Pod
from multiview.config.retrieval import (
    Analysis,
    Comparison,
    Encode,
    Evaluation,
    Export,
    ExportFormat,
    Gate,
    Index,
    PaperFigures,
    Refresh,
    Search,
)
from multiview.config.section import UNKEYED, JsonObject, Section, canonical_json, text_sha256
from multiview.config.training import DenseLayer, Mining, Model, Pooling, Temperature, Train


class Config(Section):
    """All settings of a pipeline."""

    corpus: Corpus = Corpus()
    questions: Questions = Questions()
    bm25: Bm25 = Bm25()
    model: Model = Model()
    train: Train = Train()
    mining: Mining = Mining()
    generation: Generation = Generation()
    make_questions: MakeQuestions = MakeQuestions()
    encode: Encode = Encode()
    index: Index = Index()
    search: Search = Search()
    evaluation: Evaluation = Evaluation()
    comparison: Comparison = Comparison()
    refresh: Refresh = Refresh()
    gate: Gate = Gate()
    export: Export = Export()
    kubeflow: Kubeflow = Kubeflow()
    notify: Notify = Notify()
