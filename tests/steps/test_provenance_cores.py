"""The cores that a step may use."""

import os
import sys

import pytest

from multiview.steps.provenance import cores

HERE = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()


@pytest.mark.parametrize(
    ("threads", "expected"), [("1", 1), ("100000", HERE), ("", HERE), ("0", 1), ("2,1", HERE)]
)
def test_threads_are_the_bound_where_they_are_set(monkeypatch, threads, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert cores() == expected


def test_without_a_setting_they_are_all_that_the_process_may_use(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores() == HERE
