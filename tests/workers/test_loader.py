"""Items of a request together: what they may take of a worker's memory at the same time."""

from __future__ import annotations

import pytest

from tests.support.media import plain_png
from workers import loader
from workers.decode import image

pytestmark = pytest.mark.service

SIZE = (6, 8)  # 48 pixels


@pytest.fixture(autouse=True)
def a_hundred_pixels(monkeypatch):
    """Of a request; two pictures have room."""
    for module in (loader, image):
        monkeypatch.setattr(module, "MAX_REQUEST_PIXELS", 100)


def pictures(node, count):
    return [node.reference(plain_png(*SIZE, (number, 0, 0))) for number in range(count)]


@pytest.mark.parametrize("cached", [True, False])
def test_pictures_of_a_request_share_a_limit(node, cached):
    """By their headers: nothing of the one that is too many is decoded."""
    driver = node.driver(cached=cached)
    driver.run(node.task(*pictures(node, 3), rid="r1"))
    driver.run(node.task(*pictures(node, 2), rid="r2", token="t2"))

    assert node.way.state("r1") == "rejected"
    problem = node.way.record("r1").problem
    assert (problem.code, problem.status) == ("image_too_large", 413)
    assert problem.message == "image_data has 48 pixels; 4 of the 100 of a request are left"
    assert node.way.state("r2") == "parked"  # the next request has all of it again


def test_the_same_picture_again_takes_no_more(node):
    """It is decoded once."""
    [picture] = pictures(node, 1)

    node.driver().run(node.task(*[picture] * 4, rid="r1"))

    assert node.way.state("r1") == "parked"
