"""Fixtures of the clients' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted import Scripted, scripted


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server
