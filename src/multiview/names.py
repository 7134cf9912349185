"""Names that several packages share: outputs, tags, files. Steps are named in `steps`."""

DEFAULT_STORE = "store"
"""The store of a command that names none."""

# Kinds of artifacts: the first folder under a store, and the names of steps' outputs.
PASSAGES = "passages"
TRAIN_QUESTIONS = "train_questions"
DEV_QUESTIONS = "dev_questions"
LOST_QUESTIONS = "lost_questions"
"""The questions for evaluation that a changed corpus left out."""
NEGATIVES = "negatives"
DRAFTS = "drafts"
"""Questions generated from the corpus, before the round trip."""
MODEL = "model"
GENERATOR = "generator"
QUERIES = "queries"
EMBEDDINGS = "embeddings"
INDEX = "index"
CHANGES = "changes"
EVALUATION = "evaluation"
COMPARISON = "comparison"
REPORT = "report"
CHECKPOINT = "checkpoint"
VERDICT = "verdict"
PROMOTION = "promotion"
EXPORT = "export"
CHAMPION_NOW = "champion_now"
FOLLOWED = "followed"
METRICS = "metrics"
"""The output of a component that Kubeflow's pages show as figures; nothing of it is in the store."""
CHAMPION_MODEL = "champion_model"
"""The model that the champion's questions are encoded with; an output's name, not a kind."""

KFP_TYPES = {
    **dict.fromkeys((PASSAGES, TRAIN_QUESTIONS, DEV_QUESTIONS, NEGATIVES, DRAFTS, QUERIES), "Dataset"),
    **dict.fromkeys((CHANGES, "questions", "known", "bm25_negatives", "hard_negatives"), "Dataset"),
    **dict.fromkeys((MODEL, CHAMPION_MODEL, GENERATOR, "start", "base"), "Model"),
    REPORT: "HTML",
    METRICS: "Metrics",
}
"""The class in `kfp.dsl` of an output, and of an input with a name of its own; all others are a plain `Artifact`."""

ANALYSES = "analyses"
"""Folder of an evaluation with the results of the model's analyses."""

REPORT_PAGE_FILE = "report.html"

GENERATED = "generated"
"""Fact in the record of questions generated from the corpus that says how; labelled questions have none."""

# Files of a verdict: its figures for programs, and its text for people.
VERDICT_FILE = "verdict.json"
PROMOTION_FILE = "promotion.json"
VERDICT_TEXT_FILE = "verdict.md"

# Files of a store that are not artifacts' data.
RECORD_FILE = "artifact.json"
ASIDE_FILE = "aside.json"
"""The record of an artifact while `multiview gc` finds out whether something refers to it; its files are all there."""
COLLECTED_FILE = "collected.json"
"""The record of an artifact that was collected: it describes the artifact and marks its files as gone."""
RUNS = "runs"
STEP_SETTINGS_FILE = "settings.json"
"""File of a run with its steps' settings."""
STARTS = "starts"
"""Folder with one file per start on Kubeflow, named by Kubeflow's id: the run that it opened, or the error."""
KILLED = "killed"
"""Folder with one file per run that was cancelled, or had a step killed, until MLflow shows the run as killed too."""
CANCELLED = "cancelled"
"""File in the folder of a run that was cancelled, until it is opened again."""
CHAMPIONS = "champions"
"""Folder with one file per champion, present or past, by number."""
COLLECTIONS = "collections"
"""Folder with one file per running `multiview gc --delete`."""
ANSWERS = "answers"
"""Folder with the answers of language models, in a folder per endpoint and model."""
KUBEFLOW = "kubeflow"
"""Folder of a run with one file per start on Kubeflow, named by Kubeflow's id."""

# Tags of MLflow runs.
TAG_RUN = "multiview.run"
TAG_PATH = "multiview.path"
TAG_STEP = "multiview.step"
TAG_LEVEL = "multiview.level"
"""Tag of what an MLflow run is: a pipeline's run, one of its systems, or a step."""
TAG_STORE = "multiview.store"
TAG_KUBEFLOW_RUNS = "multiview.kubeflow_runs"
TAG_ARCHITECTURE = "architecture"
TAG_SYSTEM = "system"
TAG_CORPUS = "corpus"
TAG_GIT = "git_sha"
TAG_IMAGE = "image"
TAG_ERROR = "error"

# Tags that only programs read: MLflow's pages hide tags that begin with `mlflow.`.
TAG_ATTEMPT = "mlflow.multiview.attempt"
TAG_DESCRIBED = "mlflow.multiview.described"
TAG_COMPLETE = "mlflow.multiview.complete"
TAG_SHIPPED = "mlflow.multiview.shipped"
TAG_NOTED = "mlflow.multiview.noted"
TAG_FIGURES = "mlflow.multiview.figures"
"""Tag of a system: the steps, by path and attempt, whose figures it has."""
INPUT_TAG = "mlflow.multiview.input."
OUTPUT_TAG = "mlflow.multiview.output."

# Tag of a registered model's version: the address of its index.
TAG_INDEX = "multiview.index"

# Tags of logged models, and of registered models' versions: the artifact's whole digest, and its address.
TAG_SHA256 = "sha256"
TAG_ADDRESS = "address"

# Aliases of a registered model: the version in use, the version evaluated against it, and the version before it.
CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"

DISTRIBUTION = "multiview-retrieval"
"""The name of this package for `pip install`; `multiview` on PyPI is another project."""
VERSION = "0.1.0"

EXPERIMENT = "multiview"
