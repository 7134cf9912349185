"""The images of steps, named by environment variables, and the check of their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from multiview import environment
from multiview.errors import InputError

IMAGE_VARIABLES = {False: environment.CPU_IMAGE, True: environment.GPU_IMAGE}
"""The environment variable that names the image of CPU steps (False) or GPU steps (True)."""

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_WORDS = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?/)?{_WORDS}(?:/{_WORDS})*"
    r"(?::[A-Za-z0-9_][\w.-]{0,127})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""[HOST[:PORT]/]PATH[:TAG][@DIGEST], as container registries define it (github.com/distribution/reference)."""


def check_images(needed: Iterable[bool]) -> None:
    """Raises InputError for a missing or invalid image name. `needed` holds keys of IMAGE_VARIABLES."""
    for gpu in sorted(needed):
        image = os.environ.get(IMAGE_VARIABLES[gpu])
        example = f"{IMAGE_VARIABLES[gpu]}=REGISTRY/multiview-{'gpu' if gpu else 'cpu'}@sha256:DIGEST"
        if not image:
            raise InputError(
                f"the image of {'GPU' if gpu else 'CPU'} steps is not named: set {IMAGE_VARIABLES[gpu]}, as in {example}"
            )
        if not REFERENCE.fullmatch(image):
            raise InputError(
                f"{IMAGE_VARIABLES[gpu]}: {image!r} is no name of an image; it is like {example}"
            )
