"""Components for Kubeflow Pipelines. KFP compiles each one's source, so it imports what it calls itself."""

import os
from collections.abc import Callable
from typing import Any

from kfp import dsl
from kfp.dsl.python_component import PythonComponent

from multiview import environment

CPU_IMAGE = os.environ.get(environment.CPU_IMAGE, "multiview-cpu:python3.11")
GPU_IMAGE = os.environ.get(environment.GPU_IMAGE, "multiview-gpu:python3.11")
"""Images are fixed when a pipeline is compiled; a release names them by digest."""


def component(function: Callable[..., Any], gpu: bool = False) -> PythonComponent:
    """Returns the component of a function in one of our images; in our own pipelines the pod's GPUs decide which."""
    image = GPU_IMAGE if gpu else CPU_IMAGE
    made = dsl.component(function, base_image=image, install_kfp_package=False, packages_to_install=[])
    assert isinstance(made, PythonComponent)
    return made
