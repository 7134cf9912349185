"""Names of images: those of any registry are taken, and others are refused before anything is sent."""

import pytest

from multiview.errors import InputError
from pipelines.kubeflow.submission import check_images


def test_images_must_be_named(kubeflow, submit, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", "not an image")
    assert "MULTIVIEW_GPU_IMAGE: 'not an image'" in submit(status=2)
    monkeypatch.delenv("MULTIVIEW_GPU_IMAGE")
    assert "MULTIVIEW_GPU_IMAGE=" in submit(status=2)
    assert not kubeflow.requests
    submit("--set kubeflow.gpu.gpus=0")
    monkeypatch.delenv("MULTIVIEW_CPU_IMAGE")
    assert "MULTIVIEW_CPU_IMAGE=" in submit(status=2)


@pytest.mark.parametrize("image", ["not an image", "team/CPU", "cpu@sha256:12", "registry.example/", "a:b:c"])
def test_an_image_s_name_is_one(image, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", image)
    with pytest.raises(InputError, match=f"^MULTIVIEW_CPU_IMAGE: '{image}' is no name of an image"):
        check_images([False])


@pytest.mark.parametrize(
    "image",
    [
        "multiview-cpu",
        "multiview-cpu:python3.11",
        "localhost:5000/multiview-cpu:1",
        "europe-docker.pkg.dev/my-project/multiview_cpu:1",
        f"ghcr.io/team/a__b/cpu:1.0@sha256:{1:064x}",
    ],
)
def test_images_of_any_registry_are_taken(image, monkeypatch):
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", image)
    check_images([False])
