"""The components: one module a step, each a few lines that call the library."""

import os
from collections.abc import Callable
from typing import Any

from kfp import dsl

from multiview.names import IMAGE_VARIABLES

CPU_IMAGE = os.environ.get(IMAGE_VARIABLES[False], "multiview-cpu:python3.11")
GPU_IMAGE = os.environ.get(IMAGE_VARIABLES[True], "multiview-gpu:python3.11")
"""Images are fixed when a pipeline is compiled; a release names them by digest."""

ON_GPU: set[str] = set()
"""Names of the components that use a GPU."""


def on_cpu() -> Callable[..., Any]:
    """A component in the CPU image."""
    return dsl.component(base_image=CPU_IMAGE, install_kfp_package=False, packages_to_install=[])


def on_gpu() -> Callable[..., Any]:
    """A component in the GPU image, on a node with a GPU."""

    def decorate(function: Callable[..., Any]) -> Any:
        made = dsl.component(base_image=GPU_IMAGE, install_kfp_package=False, packages_to_install=[])(
            function
        )
        ON_GPU.add(made.name)
        return made

    return decorate
