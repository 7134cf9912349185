"""Requests made from the server's own OpenAPI, such as it allows and such as it forbids: none is an error of the server."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from multiview.serving.app import build_app
from multiview.serving.limits import Limits
from tests.fixtures.answering_server import of_champion
from tests.fixtures.crowned import index_record, promote

PROBES = ["GET /healthz", "GET /readyz", "GET /metrics"]
ASKED = [
    "POST /search",
    "POST /v1/vector_stores/{vector_store_id}/search",
    "GET /passages/{id}",
    "GET /indexes",
]
EXAMPLES = 15
"""Requests of each mode per route."""
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
WORDS = [
    "id", "title", "url", "day", "columns['url']", "columns[", "==", "!=", "<", ">=", "in", "not in", "not", "and", "or",
    "is null", "is not null", "(", ")", "(1, 2)", "'x'", '"2020-01-31"', "'9999-99-99'", "1e999", "-1", "10**99", "true",
    "null", "\x00", "\n", "#", "a.b()", "é", "0x", "_", "lambda: 0", "f'{id}'", "[", "*",
]  # fmt: skip
"""Words of conditions, and such as no condition has."""


@pytest.fixture(scope="module")
def crowned(indexes, tmp_path_factory):
    copy = indexes.copy(tmp_path_factory.mktemp("asked") / "store")
    promote(copy, "camvr")
    return copy


@pytest.fixture(scope="module")
def api(crowned):
    """The server of a champion, beside which other indexes of the store answer; asked in this process."""
    app = build_app(of_champion(crowned, most=1, limits=Limits(max_k=20)))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.fixture(scope="module")
def known(crowned) -> dict[str, st.SearchStrategy[Any]]:
    """Values that the server knows, by the names of parameters and fields; conditions that are nearly right."""
    return {
        "index": st.sampled_from([index_record(crowned, "mvr").key, "champion", None]),
        "vector_store_id": st.just("champion"),
        "id": st.sampled_from(["p1", "p2"]),
        "where": st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join),
        "key": st.sampled_from(["id", "title", "url", "day"]),
    }


def test_all_routes_are_asked(api):
    assert {operation.ok().label for operation in api.get_all_operations()} == {*PROBES, *ASKED}


@pytest.mark.parametrize(
    ("route", "mode"),
    [
        *((route, GenerationMode.POSITIVE) for route in PROBES),
        *((route, mode) for route in ASKED for mode in GenerationMode),
    ],
)
def test_no_request_is_an_error_of_the_server(api, known, route, mode):
    def with_known(value: Any, data: st.DataObject) -> Any:
        """The same, half of the values whose names are known replaced: so some requests are searched."""
        if isinstance(value, list):
            return [with_known(each, data) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            name: data.draw(known[name])
            if name in known and data.draw(st.booleans())
            else with_known(each, data)
            for name, each in value.items()
        }

    @hypothesis.given(api.find_operation_by_label(route).as_strategy(generation_mode=mode), st.data())
    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
    )
    def ask(case: schemathesis.Case, data: st.DataObject) -> None:
        case.path_parameters = with_known(case.path_parameters, data)
        case.body = with_known(case.body, data)
        case.call_and_validate(checks=CHECKS)

    ask()
