"""The components: one module a step, each a few lines that call the library."""

import os
from functools import partial

from kfp import dsl

CPU_IMAGE = os.environ.get("MULTIVIEW_CPU_IMAGE", "multiview-cpu:python3.11")
GPU_IMAGE = os.environ.get("MULTIVIEW_GPU_IMAGE", "multiview-gpu:python3.11")
"""Images are fixed when a pipeline is compiled; a release names them by digest."""

on_cpu = partial(dsl.component, base_image=CPU_IMAGE, install_kfp_package=False, packages_to_install=[])
on_gpu = partial(dsl.component, base_image=GPU_IMAGE, install_kfp_package=False, packages_to_install=[])
