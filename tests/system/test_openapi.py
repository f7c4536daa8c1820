"""The OpenAPI document is true: generated calls get no 5xx, no undocumented status, no answer of another shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.deployment import Deployment
from tests.support.long import LONG

pytestmark = pytest.mark.system

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
BODIES, OTHERS, LEAST = (320, 25, 2_000) if LONG else (100, 15, 700)
"""Examples of each operation that takes a body, and of each of the others; how many that are in all."""


def calls_of(operation: Any, count: Callable[[], None]) -> None:
    """Generated calls of one operation, each held against what the document says of it."""

    @settings(
        max_examples=BODIES if operation.body else OTHERS,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        count()
        case.call_and_validate(checks=CHECKS, timeout=60)

    call()


def test_generated_calls_get_what_the_document_says(deployment: Deployment):
    """Over every operation; in the long form two thousand of them and more."""
    schema = schemathesis.openapi.from_url(f"{deployment.url}/openapi.json")
    made = []
    for result in schema.get_all_operations():
        calls_of(result.ok(), lambda: made.append(1))

    assert len(made) >= LEAST


def test_the_documentation_needs_no_network(deployment: Deployment):
    """Every script and style that the page names comes from the API itself."""
    page = httpx.get(f"{deployment.url}/docs").text
    named = re.findall(r'(?:src|href)="([^"]+)"', page)

    assert named
    for address in named:
        assert address.startswith("/"), address
        assert httpx.get(f"{deployment.url}{address}").status_code == 200
