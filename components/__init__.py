"""The components: one function per step, which passes its artifacts to the library.

KFP compiles the source of a component's function into the pipeline, so that each function imports what it calls.
"""

import os
from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl.python_component import PythonComponent

from multiview import environment
from multiview.steps.table import GPU_STEPS

CPU_IMAGE = os.environ.get(environment.CPU_IMAGE, "multiview-cpu:python3.11")
GPU_IMAGE = os.environ.get(environment.GPU_IMAGE, "multiview-gpu:python3.11")
"""Images are fixed when a pipeline is compiled; a release names them by digest."""


def component(function: Callable[..., Any]) -> PythonComponent:
    """Returns the component of the step that has the function's name, with hyphens for underscores.

    It has the GPU image where the table of steps says that the step uses a GPU, else the CPU image. In a compiled
    pipeline the pod's GPUs decide instead (`pipelines.kubeflow.pods`).
    """
    image = GPU_IMAGE if function.__name__.replace("_", "-") in GPU_STEPS else CPU_IMAGE
    made = dsl.component(function, base_image=image, install_kfp_package=False, packages_to_install=[])
    assert isinstance(made, PythonComponent)
    return made
