"""Requests grown from the service's own description (OpenAPI): whatever it allows, and what it forbids, is
answered with a status that the door knows and one sentence, and nothing is charged by accident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.server.hospital import Hospital

OUTSIDE = {"/v1/logout"}
"""It ends the session that asks; a token has none."""
BRIEF = settings(
    max_examples=min(40, settings().max_examples // 7),  # 4 in `make test`, 40 in `make soak`
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def sent(client: httpx.Client, case: Any) -> httpx.Response:
    """The case as httpx sends it. What HTTP itself cannot carry is not the service's to refuse."""
    parts = case.as_transport_kwargs(base_url=str(client.base_url))
    request = client.build_request(
        parts["method"],
        parts["url"],
        params=parts.get("params"),
        json=parts.get("json"),
        content=parts.get("data"),
        headers={name: value for name, value in parts["headers"].items() if name.lower() != "user-agent"},
    )
    return client.send(request)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_what_the_description_allows_or_forbids_is_answered_in_a_sentence(
    fresh: Hospital, mode: GenerationMode
) -> None:
    """To the officer and to an analyst alike: growing the requests takes longer than answering them."""
    with fresh.api("olga") as officer, fresh.api("ada") as analyst:
        schema = schemathesis.openapi.from_dict(officer.get("/v1/openapi.json").json())
        operations = [result.ok() for result in schema.get_all_operations()]
        tried = [
            _try((officer, analyst), operation, mode)
            for operation in operations
            if operation.path not in OUTSIDE
        ]
    assert sum(tried) >= (25 if mode is GenerationMode.POSITIVE else 15)
    assert fresh.spent() == 0
    assert fresh.service.ledger.verify().ok


def _try(clients: Sequence[httpx.Client], operation: Any, mode: GenerationMode) -> bool:
    """Whether there was anything to send: a route without a body has no wrong one."""

    @BRIEF
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if "name" in (case.path_parameters or {}) and mode is GenerationMode.POSITIVE:
            case.path_parameters["name"] = "visits"  # grown names would never be one that is there
        for client in clients:
            _send(client, case)

    try:
        ask()
    except Unsatisfiable:
        return False
    return True


def _send(client: httpx.Client, case: Any) -> None:
    try:
        response = sent(client, case)
    except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError, ValueError):
        return
    label = case.operation.label
    assert response.status_code < 500, (label, response.text)
    if response.status_code >= 400:
        body = response.json()
        assert set(body) >= {"error", "message"}, (label, body)
        assert body["message"].endswith("."), (label, body)
