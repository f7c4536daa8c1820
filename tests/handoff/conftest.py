"""A request on its way, for every test of the hand-off."""

from __future__ import annotations

import pytest

from handoff.connection import Client
from handoff.moves import Moves
from tests.support.ways import Way


@pytest.fixture
def way(client: Client, moves: Moves) -> Way:
    return Way(client, moves)
