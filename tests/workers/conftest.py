"""A node with workers, for every test that needs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.connection import Client
from handoff.moves import Moves
from tests.support.node import Node, made_node


@pytest.fixture
def node(client: Client, moves: Moves, shm: Path, tmp_path: Path) -> Iterator[Node]:
    with made_node(client, moves, shm, tmp_path) as node:
        yield node
