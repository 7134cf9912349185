"""The environment variables that multiview reads or sets, and what each means.

Variables that other programs define (MLflow, torchrun, KFP, Hugging Face) stand in the second part, as far as
multiview reads or sets them.
"""

# --- chosen by a person ---------------------------------------------------------------------------

STORE = "MULTIVIEW_STORE"
"""The store of a command that is given no `--store`."""

INDEX = "MULTIVIEW_INDEX"
"""The index of a search that is given no `--index`."""

SCRATCH = "MULTIVIEW_SCRATCH"
"""The folder for local copies and other temporary files; else the system's."""

DATA = "MULTIVIEW_DATA"
"""The folder of the data sets that benchmarks and tests read."""

PROFILES = "MULTIVIEW_PROFILES"
"""The file of profiles, each of which says how one Kubeflow is reached."""

PROFILE = "MULTIVIEW_PROFILE"
"""The profile of a command that is given no `--profile`."""

KUBE_CONTEXT = "MULTIVIEW_KUBE_CONTEXT"
"""The kubectl context through which Kubeflow is reached."""

KUBEFLOW_CA = "MULTIVIEW_KUBEFLOW_CA"
"""The file of the certificate authority that signed Kubeflow's certificate."""

PIPELINE_ROOT = "MULTIVIEW_PIPELINE_ROOT"
"""The place where Kubeflow keeps the artifacts' files of its own; else the server's default."""

CRON_TIME_ZONE = "MULTIVIEW_CRON_TIME_ZONE"
"""The time zone in which Kubeflow's server reads schedules."""

CPU_IMAGE = "MULTIVIEW_CPU_IMAGE"
"""The image of steps that need no GPU, fixed when a pipeline is compiled."""

GPU_IMAGE = "MULTIVIEW_GPU_IMAGE"
"""The image of steps that need a GPU, fixed when a pipeline is compiled."""

# --- set by multiview for its own processes and pods ----------------------------------------------

GIT_SHA = "MULTIVIEW_GIT_SHA"
"""The commit of the code that runs, with `-dirty` where files differ from it."""

IMAGE = "MULTIVIEW_IMAGE"
"""The image that a pod runs in."""

NODES = "MULTIVIEW_NODES"
"""The JSON of the `Nodes` on which a step's pod trains; without it the pod trains alone."""

DRIVER_LOCK = "MULTIVIEW_DRIVER_LOCK"
"""A file that the driver of a local run keeps locked while it lives."""

FORK_SERVER = "MULTIVIEW_FORKS"
"""The socket of the fork server of a local run."""

SHARD_THREADS = "MULTIVIEW_SHARD_THREADS"
"""The threads of a step that works on one shard beside others."""

TERMINATION_LOG = "MULTIVIEW_TERMINATION_LOG"
"""The file whose text Kubernetes puts into a pod's status; else `/dev/termination-log`."""

# --- defined by other programs --------------------------------------------------------------------

MLFLOW_TRACKING_URI = "MLFLOW_TRACKING_URI"
"""MLflow's server; without it a local run has a database in its store, and a pod ships nothing."""

MLFLOW_RUN_ID = "MLFLOW_RUN_ID"
"""The MLflow run that KFP's own MLflow plugin made for a pod."""

OMP_NUM_THREADS = "OMP_NUM_THREADS"
"""The threads of torch, read when it is imported."""

MLFLOW_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
"""The retries of a request to MLflow's server."""

MLFLOW_TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
"""The seconds that a request to MLflow's server may take."""

MLFLOW_PROGRESS_BAR = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
"""Whether MLflow draws a progress bar while it reads or writes files."""

MLFLOW_USERNAME = "MLFLOW_TRACKING_USERNAME"
"""The user of an MLflow server that asks for one."""

MLFLOW_PASSWORD = "MLFLOW_TRACKING_PASSWORD"
"""The password of an MLflow server that asks for one."""

HUB_TOKEN = "HF_TOKEN"
"""The token for Hugging Face's hub."""

BUCKET_KEY_ID = "AWS_ACCESS_KEY_ID"
"""The name of the key to a bucket that speaks S3's protocol."""

BUCKET_SECRET = "AWS_SECRET_ACCESS_KEY"
"""The key to a bucket that speaks S3's protocol."""

OPENBLAS_CORETYPE = "OPENBLAS_CORETYPE"
"""The kernels of every OpenBLAS that is loaded while it is set."""

PET_NNODES = "PET_NNODES"
"""The number of nodes that train together, as Kubeflow Trainer tells torchrun."""

PET_NODE_RANK = "PET_NODE_RANK"
"""The number of a node among those that train together, from 0."""
