"""The environment variables that multiview reads or sets, with their meanings.

The last part lists variables that other programs define (MLflow, torchrun, Kubernetes, KFP, Hugging Face), as far as
multiview reads or sets them.
"""

# --- chosen by a person ---------------------------------------------------------------------------

STORE = "MULTIVIEW_STORE"
"""The store of a command without `--store`."""

INDEX = "MULTIVIEW_INDEX"
"""The index of a search without `--index`."""

API_KEYS = "MULTIVIEW_API_KEYS"
"""The API keys of a server without `--api-keys`, separated by white space; unset: it asks for none, blank: it refuses to start."""

QDRANT_URL = "MULTIVIEW_QDRANT_URL"
"""The Qdrant server whose alias follows the champion, of a command without `--url` or `--qdrant-url`."""

QDRANT_API_KEY = "MULTIVIEW_QDRANT_API_KEY"
"""The API key for that server; unset: none is sent."""

SCRATCH = "MULTIVIEW_SCRATCH"
"""The folder for local copies and other temporary files; unset: the system's temporary folder."""

STREAMED = "MULTIVIEW_STREAMED"
"""The size, as in 50GiB, from which on a file that a step can read in parts stays in its bucket; unset: it does where
the scratch folder has no room for the step's inputs."""

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

PIPELINE_ROOT = "MULTIVIEW_PIPELINE_ROOT"
"""The location of the files of KFP's own artifacts; unset: the server's default."""

CRON_TIME_ZONE = "MULTIVIEW_CRON_TIME_ZONE"
"""The time zone in which Kubeflow's server reads schedules."""

CPU_IMAGE = "MULTIVIEW_CPU_IMAGE"
"""The image of steps that need no GPU; it is fixed when a pipeline is compiled."""

GPU_IMAGE = "MULTIVIEW_GPU_IMAGE"
"""The image of steps that need a GPU; it is fixed when a pipeline is compiled."""

NOTIFY_URL = "MULTIVIEW_NOTIFY_URL"
"""The address that hears of failed runs and of verdicts where `notify.url` is none, which keeps it out of settings and
records."""

# --- set by multiview for its own processes and pods ----------------------------------------------

GIT_SHA = "MULTIVIEW_GIT_SHA"
"""The commit of the code that runs, with `-dirty` where files differ from it."""

IMAGE = "MULTIVIEW_IMAGE"
"""The image of the running pod."""

GPUS = "MULTIVIEW_GPUS"
"""The number of GPUs that torch must see in a pod; unset: as many as there are."""

MLFLOW_URI = "MULTIVIEW_MLFLOW_URI"
"""The MLflow server of a pod's settings, with which MLFLOW_TRACKING_URI is compared."""

NODES = "MULTIVIEW_NODES"
"""The JSON of the TrainJob, without its task, in which a step trains; unset: it trains in its own pod. In the first and the
last pod of a run, that of some such step."""

TERMINATION_LOG = "MULTIVIEW_TERMINATION_LOG"
"""The file whose text Kubernetes puts into a pod's status; unset: `/dev/termination-log`."""

# --- defined by other programs --------------------------------------------------------------------

MLFLOW_TRACKING_URI = "MLFLOW_TRACKING_URI"
"""MLflow's server; without it a local run has a database in its store, and a pod ships nothing."""

MLFLOW_RUN_ID = "MLFLOW_RUN_ID"
"""The MLflow run that KFP's MLflow plugin created for a pod."""

MLFLOW_EXPERIMENT_ID = "MLFLOW_EXPERIMENT_ID"
"""The MLflow experiment that KFP's MLflow plugin chose for a pod."""

POD_NAME = "KFP_POD_NAME"
"""The name of a step's pod, which KFP sets."""

POD_UID = "KFP_POD_UID"
"""The uid of a step's pod, which KFP sets."""

COLUMNS = "COLUMNS"
"""The width of the terminal, which shells set and people choose for output that is piped."""

CACHE_HOME = "XDG_CACHE_HOME"
"""The folder of caches, in which `multiview` keeps BEIR's collections; unset: `~/.cache`."""

OMP_NUM_THREADS = "OMP_NUM_THREADS"
"""The number of torch's threads, read when torch is imported."""

MLFLOW_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
"""The number of retries of a request to MLflow's server."""

MLFLOW_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
"""The seconds that a request to MLflow's server may take."""

MLFLOW_PROGRESS_BAR = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
"""Whether MLflow draws a progress bar while it reads or writes files."""

MLFLOW_QUIET = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"
"""Whether MLflow prints no address of a run that ends."""

MLFLOW_USERNAME = "MLFLOW_TRACKING_USERNAME"
"""The user name for an MLflow server that requires one."""

MLFLOW_PASSWORD = "MLFLOW_TRACKING_PASSWORD"
"""The password for an MLflow server that requires one."""

HUB_TOKEN = "HF_TOKEN"
"""The token for Hugging Face's hub."""

BUCKET_KEY_ID = "AWS_ACCESS_KEY_ID"
"""The id of the access key to a bucket with S3's protocol."""

BUCKET_SECRET = "AWS_SECRET_ACCESS_KEY"
"""The secret access key to a bucket with S3's protocol."""

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
"""The variables by which OpenBLAS, torch, MKL, NumPy and oneDNN are told which instructions of a processor to use.
Unset: each chooses by the processor."""

PET_NNODES = "PET_NNODES"
"""The number of nodes that train together, which Kubeflow Trainer sets for torchrun."""

PET_NODE_RANK = "PET_NODE_RANK"
"""The rank of a node among the nodes that train together, from 0."""

RANK = "RANK"
"""The rank of a training process among all processes of its training, from 0, which torchrun sets."""

LOCAL_RANK = "LOCAL_RANK"
"""The rank of a training process on its node, from 0, which torchrun sets."""

KUBERNETES_HOST = "KUBERNETES_SERVICE_HOST"
"""The address of the Kubernetes API, which Kubernetes sets in every pod."""

KFP_HOST = "KF_PIPELINES_ENDPOINT"
"""The address of Kubeflow Pipelines."""

KFP_UI_HOST = "KF_PIPELINES_UI_ENDPOINT"
"""The address of the pages of Kubeflow Pipelines, where it differs."""

KFP_NAMESPACE = "KFP_NAMESPACE"
"""The namespace of runs on Kubeflow Pipelines."""

KFP_EXPERIMENT = "KF_PIPELINES_DEFAULT_EXPERIMENT_NAME"
"""The experiment of runs on Kubeflow Pipelines."""

KFP_TOKEN = "KFP_EXISTING_TOKEN"
"""A bearer token for Kubeflow Pipelines."""

KFP_TOKEN_FILE = "KF_PIPELINES_SA_TOKEN_PATH"
"""The file with a service account's token for Kubeflow Pipelines."""

IAP_CLIENT_ID = "KF_PIPELINES_IAP_OAUTH2_CLIENT_ID"
"""The OAuth client of Google's Identity-Aware Proxy in front of Kubeflow Pipelines."""

APP_CLIENT_ID = "KF_PIPELINES_APP_OAUTH2_CLIENT_ID"
"""The OAuth client of the desktop application through which a person signs in."""

APP_CLIENT_SECRET = "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET"
"""The secret of the desktop application's OAuth client."""
