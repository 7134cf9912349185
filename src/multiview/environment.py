"""The environment variables that multiview reads or sets, with their meanings; the last part has those that other
programs define (MLflow, torchrun, Kubernetes, KFP, Hugging Face)."""

# --- chosen by a person ---------------------------------------------------------------------------

STORE = "MULTIVIEW_STORE"
"""The store of a command without `--store`."""

INDEX = "MULTIVIEW_INDEX"
"""The index of a search, an export or a server without `--index`; the server then follows no champion."""

API_KEYS = "MULTIVIEW_API_KEYS"
"""The API keys of a server without `--api-keys`, separated by white space; unset: it asks for none, blank: it refuses to start."""

QDRANT_URL = "MULTIVIEW_QDRANT_URL"
"""The Qdrant server, whose alias follows the champion, for a command without `--url` or `--qdrant-url`."""

QDRANT_API_KEY = "MULTIVIEW_QDRANT_API_KEY"
"""The API key for that server; unset: none is sent."""

OPENAI_API_KEY = "OPENAI_API_KEY"
"""The API key of the language model that is asked for questions; unset: none is sent."""

SCRATCH = "MULTIVIEW_SCRATCH"
"""The folder for local copies and other temporary files; unset: the system's temporary folder."""

DATA = "MULTIVIEW_DATA"
"""The folder of the data sets that benchmarks and tests read."""

BEIR = "MULTIVIEW_BEIR"
"""The address of the folder with BEIR's archives, `NAME.zip`; unset: the public one."""

PROFILES = "MULTIVIEW_PROFILES"
"""The file of profiles; each profile describes how to reach one Kubeflow."""

PROFILE = "MULTIVIEW_PROFILE"
"""The profile of a command without `--profile`."""

KUBE_CONTEXT = "MULTIVIEW_KUBE_CONTEXT"
"""The kubectl context through which Kubeflow is reached."""

KUBEFLOW_CA = "MULTIVIEW_KUBEFLOW_CA"
"""The file of the certificate authority that signed Kubeflow's certificate."""

KUBEFLOW_COOKIE = "MULTIVIEW_KUBEFLOW_COOKIE"
"""The cookies of a signed-in session, which are sent to Kubeflow."""

MLFLOW_UI = "MULTIVIEW_MLFLOW_UI"
"""The address of MLflow's pages as a person's browser reaches it."""

PIPELINE_ROOT = "MULTIVIEW_PIPELINE_ROOT"
"""The location of the files of KFP's own artifacts; unset: the server's default."""

CRON_TIME_ZONE = "MULTIVIEW_CRON_TIME_ZONE"
"""The time zone in which Kubeflow's server reads schedules."""

CPU_IMAGE = "MULTIVIEW_CPU_IMAGE"
"""The image of steps that need no GPU; it is fixed when a pipeline is compiled."""

GPU_IMAGE = "MULTIVIEW_GPU_IMAGE"
"""The image of steps that need a GPU; it is fixed when a pipeline is compiled."""

NOTIFY_URL = "MULTIVIEW_NOTIFY_URL"
"""The address that is notified of failed runs and verdicts if `notify.url` is none; no setting or record shows it."""

# --- set by multiview for its own processes and pods ----------------------------------------------

GIT_SHA = "MULTIVIEW_GIT_SHA"
"""The commit of the code that runs, with `-dirty` where files differ from it."""

IMAGE = "MULTIVIEW_IMAGE"
"""The image of the running pod."""

PROCESSORS = "MULTIVIEW_PROCESSORS"
"""The number of processors that the pod requests, which is used if the pod has no limit."""

GPUS = "MULTIVIEW_GPUS"
"""The number of GPUs that torch must see in a pod; unset: as many as there are."""

MLFLOW_URI = "MULTIVIEW_MLFLOW_URI"
"""The MLflow server of a pod's settings, with which MLFLOW_TRACKING_URI is compared."""

NODES = "MULTIVIEW_NODES"
"""The JSON of the TrainJob, without its task, in which a step trains; unset: it trains in its own pod. The first pod of
a run has that of one such step."""

TERMINATION_LOG = "MULTIVIEW_TERMINATION_LOG"
"""The file whose text Kubernetes puts into a pod's status; unset: `/dev/termination-log`."""

# --- defined by other programs --------------------------------------------------------------------

COLUMNS = "COLUMNS"
"""The width of the terminal, which shells set, and people set for piped output."""

HOME = "HOME"
"""The user's folder; set for a user whom the system does not know."""

CACHE_HOME = "XDG_CACHE_HOME"
"""The folder of caches, in which `multiview` keeps BEIR's collections; unset: `~/.cache`."""

OMP_NUM_THREADS = "OMP_NUM_THREADS"
"""The number of threads of torch, faiss, NumPy and pyarrow, which each reads when it is imported; other work follows it too."""

RAYON_NUM_THREADS = "RAYON_NUM_THREADS"
"""The number of threads of tokenizers."""

OPENBLAS_CORETYPE = "OPENBLAS_CORETYPE"
"""The processor type for which every OpenBLAS loaded later chooses its kernels."""

KERNEL_VARIABLES = (
    OPENBLAS_CORETYPE,
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "NPY_DISABLE_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA",
)
"""The variables that tell OpenBLAS, torch, MKL, NumPy and oneDNN which of a processor's instructions to use. Unset:
each chooses by the processor."""

# MLflow's.
MLFLOW_TRACKING_URI = "MLFLOW_TRACKING_URI"
"""MLflow's server; without it a local run has a database in its store, and a pod ships nothing."""
MLFLOW_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
MLFLOW_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
"""Seconds that a request to MLflow's server may take."""
MLFLOW_PROGRESS_BAR = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
MLFLOW_TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
MLFLOW_QUIET = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"

# torchrun's, for the processes of a training: Kubeflow Trainer sets those with PET.
PET_NNODES = "PET_NNODES"
PET_NODE_RANK = "PET_NODE_RANK"
RANK = "RANK"
LOCAL_RANK = "LOCAL_RANK"
"""The rank among the processes of a node; `RANK` counts over all nodes."""

# A pod's, which Kubernetes and KFP set.
KUBERNETES_HOST = "KUBERNETES_SERVICE_HOST"
POD_NAME = "KFP_POD_NAME"
POD_UID = "KFP_POD_UID"

# Kubeflow Pipelines', as its SDK names them: each is a field of a profile (pipelines/kubeflow/connection.py).
WORKFLOW_LIMIT = "MAX_WORKFLOW_SIZE"
KFP_HOST = "KF_PIPELINES_ENDPOINT"
KFP_UI_HOST = "KF_PIPELINES_UI_ENDPOINT"
KFP_NAMESPACE = "KFP_NAMESPACE"
KFP_EXPERIMENT = "KF_PIPELINES_DEFAULT_EXPERIMENT_NAME"
KFP_TOKEN = "KFP_EXISTING_TOKEN"
KFP_TOKEN_FILE = "KF_PIPELINES_SA_TOKEN_PATH"
IAP_CLIENT_ID = "KF_PIPELINES_IAP_OAUTH2_CLIENT_ID"
APP_CLIENT_ID = "KF_PIPELINES_APP_OAUTH2_CLIENT_ID"
APP_CLIENT_SECRET = "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"
