"""Which pictures are one and which are two: for the cache, and for whoever reads an item's hash."""

from __future__ import annotations

import numpy as np
import pytest

from forebay.media import digest_of
from handoff.pool import FeatureCache
from tests.support.caching import Counting, entries, features, run
from tests.support.media import encoded

pytestmark = pytest.mark.service

WIDE, HIGH = (np.full(shape, 7, np.uint8) for shape in ((30, 150, 3), (150, 30, 3)))
GREY = np.full((150, 30), 7, np.uint8)


@pytest.mark.parametrize("other", [HIGH, GREY], ids=["other sides", "another mode"])
def test_pictures_of_the_same_values_and_another_shape_are_two(node, other):
    """C048: the pixels alone, as bytes, do not say what a picture is."""
    FeatureCache(node.pool).set_budget(1 << 19)
    toy = Counting()
    driver = node.driver(toy, cached=True)
    files = encoded(WIDE, "BMP"), encoded(other, "BMP")

    tickets = [run(node, driver, data, rid=f"r{number}") for number, data in enumerate(files)]

    assert toy.made == [digest_of(data) for data in files]
    assert len(entries(node)) == 2
    assert len({ticket.items[0].hash for ticket in tickets}) == 2
    assert [len(features(node, ticket)[0]) for ticket in tickets] == [30, 150]
