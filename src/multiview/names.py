"""Names that several rooms must agree on: outputs, tags, files. Steps are named in `steps`."""

# Kinds of artifacts: the first folder under a store, and the names of steps' outputs.
PASSAGES = "passages"
TRAIN_QUESTIONS = "train_questions"
DEV_QUESTIONS = "dev_questions"
NEGATIVES = "negatives"
MODEL = "model"
GENERATOR = "generator"
QUERIES = "queries"
QUERY_EVALUATION = "query_evaluation"
EMBEDDINGS = "embeddings"
INDEX = "index"
CHANGES = "changes"
EVALUATION = "evaluation"
COMPARISON = "comparison"
REPORT = "report"
CHECKPOINT = "checkpoint"
VERDICT = "verdict"
PROMOTION = "promotion"
CHAMPION_MODEL = "champion_model"
"""The model that the champion's questions are encoded with; an output's name, not a kind."""

KFP_TYPES = {
    PASSAGES: "Dataset",
    TRAIN_QUESTIONS: "Dataset",
    DEV_QUESTIONS: "Dataset",
    NEGATIVES: "Dataset",
    MODEL: "Model",
    CHAMPION_MODEL: "Model",
    GENERATOR: "Model",
    QUERIES: "Dataset",
    CHANGES: "Dataset",
    REPORT: "HTML",
}
"""The class in `kfp.dsl` of each output, for Kubeflow's pages; every other output is a plain `Artifact`."""

ANALYSES = "analyses"
"""Folder of an evaluation with what was found out about the model."""

REPORT_FILE = "report.html"
"""The one file of a report."""

# Files of a store that are not artifacts' data.
RECORD_FILE = "artifact.json"
COLLECTED_FILE = "collected.json"
"""The record of an artifact that was collected: what it was is still known, and that it is gone."""
RUNS = "runs"
CHAMPIONS = "champions"
"""Folder with a file for each champion that there ever was, by number."""
KUBEFLOW = "kubeflow"
"""Folder of a run with a file for each of its starts on Kubeflow, named by Kubeflow's id."""

# Tags of MLflow runs.
TAG_RUN = "multiview.run"
TAG_PATH = "multiview.path"
TAG_STEP = "multiview.step"
TAG_PIPELINE = "multiview.pipeline"
TAG_STORE = "multiview.store"
TAG_KEY = "multiview.key"
TAG_KUBEFLOW_RUNS = "multiview.kubeflow_runs"
TAG_STEP_OF = "multiview.step_of"
TAG_RERUN_OF = "multiview.rerun_of"
TAG_ARCHITECTURE = "architecture"
TAG_SYSTEM = "system"
TAG_PRESET = "preset"
TAG_STUDY = "study"
TAG_COMPARES = "compares"
"""Of a comparison of earlier runs: their ids."""
TAG_CORPUS = "corpus"
TAG_GIT = "git_sha"
TAG_IMAGE = "image"
TAG_ERROR = "error"
TAG_DECISION = "decision"
"""Of a refresh: promote, refuse or keep."""
ADDRESS_TAG = "output."
"""How the tags begin that have the addresses of a step's outputs."""
WARNING_TAG = "warning."

# Tags that programs read and persons need not see: MLflow's pages hide what begins with `mlflow.`.
TAG_ATTEMPT = "mlflow.multiview.attempt"
TAG_DESCRIBED = "mlflow.multiview.described"
TAG_COMPLETE = "mlflow.multiview.complete"
TAG_FILES = "mlflow.multiview.files"
TAG_SHIPPED = "mlflow.multiview.shipped"
TAG_NOTED = "mlflow.multiview.noted"
INPUT_TAG = "mlflow.multiview.input."
OUTPUT_TAG = "mlflow.multiview.output."

# Tag of a registered model's version: the address of the index that it answers from.
TAG_INDEX = "multiview.index"

# Tags of logged models, and of registered models' versions: the artifact's whole digest, and its address.
TAG_SHA256 = "sha256"
TAG_ADDRESS = "address"

# Aliases of a registered model: the version that is asked, the one that was evaluated against it, the one before it.
CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"

DISTRIBUTION = "multiview-retrieval"
"""What `pip install` calls this package; `multiview` on PyPI is somebody else's."""
VERSION = "0.1.0"

EXPERIMENT = "multiview"

IMAGE_VARIABLES = {False: "MULTIVIEW_CPU_IMAGE", True: "MULTIVIEW_GPU_IMAGE"}
"""The environment variable that names an image of steps, by whether it is that for GPUs."""


def accuracy_at(k: int) -> str:
    """Metric: share of questions with an answer-holding passage among the top k (DPR; R@k in the papers)."""
    return f"accuracy_at_{k}"


def recall_at(k: int) -> str:
    """Metric: share of a question's gold passages among the top k."""
    return f"recall_at_{k}"


def mrr_at(k: int) -> str:
    """Metric: reciprocal rank of the first gold passage, 0 beyond rank k."""
    return f"mrr_at_{k}"


def ndcg_at(k: int) -> str:
    """Metric: trec_eval's nDCG of the top k by the gold passages' grades."""
    return f"ndcg_at_{k}"


def index_recall_at(k: int) -> str:
    """Metric: share of the true top k passages that an approximate index finds."""
    return f"index_recall_at_{k}"


DRIFT_ADDED = "drift_added"
"""Metric: share of a trained index's views that were added since it was trained."""

DRIFT_ERROR = "drift_error"
"""Metric: their mean squared error in the index, as a multiple of that of the views that were there."""

BYTES_PER_PASSAGE = "bytes_per_passage"
"""Metric: bytes of the faiss index, which searches hold in memory, by passages."""


def of_view(view: int, metric: str) -> str:
    """Metric: `metric` of one view, which is counted from 0 and named from 1: `accuracy_at_5/view_1` (CAMVR Tables 2, 7)."""
    return of_group(f"view_{view + 1}", metric)


def of_group(group: str, metric: str) -> str:
    """Metric: `metric` of one of several: of a system (`accuracy_at_5/camvr`), of some of the questions or of another
    ranking (`accuracy_at_5/title_merged`, `…/answer_view`). MLflow draws those of one metric side by side."""
    return f"{metric}/{group}"


ANSWER_VIEW = "answer_view"
OTHER_VIEWS = "other_views"
SHARE_OF_TOP_1 = "share_of_top_1"
SHARE_OF_GOLD = "share_of_gold"
ATTENTION_DIVERGENCE = "attention_divergence"
VIEW_COSINE = "view_cosine"
LV_COSINE = "lv_cosine"
LV_SOFTMAX = "lv_softmax"
VIEW_PPL = "view_ppl"
PPL_QUESTIONS = "view_ppl_questions_per_passage"
WITH_PADDING = "with_padding"
WITHOUT_PADDING = "without_padding"
PADDING_WINS = "padding_wins_top_1"
AVQ = "avq"


def padding_overlap_at(k: int) -> str:
    """Metric: share of the top k that are the same with and without padding views."""
    return f"padding_overlap_at_{k}"


def answer_found(kind: str) -> str:
    """Metric: share of training questions whose answer view was found in this way (`offset`, `one`, `several`, `none`, `title`)."""
    return f"training_answers_{kind}"


ROUGE_L = "rouge_l"
"""Figure: the best ROUGE-L between a question and all queries generated for its gold passage."""


def rouge_l_at(k: int) -> str:
    """Metric: the same with the first k queries."""
    return f"{ROUGE_L}_at_{k}"


SELF_BLEU = "self_bleu_4"
"""Metric: how alike the queries of a passage are (Zhu et al. 2018); high is little diversity."""


SHORT = {"accuracy": "acc", "recall": "gold", "mrr": "MRR", "ndcg": "nDCG"}


def short(metric: str) -> str:
    """A metric's name for a narrow table: `accuracy_at_5` is `acc@5`, `recall_at_5` `gold@5`, `mrr_at_10` `MRR@10`."""
    stem, at, k = metric.rpartition("_at_")
    return f"{SHORT.get(stem, stem)}@{k}" if at else metric
