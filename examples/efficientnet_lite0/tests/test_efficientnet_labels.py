"""The names of the classes, at numbers that everyone knows."""

from __future__ import annotations

import pytest
from forebay_efficientnet_lite0.labels import read_labels


def test_there_are_a_thousand_names():
    """One a class, none empty."""
    labels = read_labels()

    assert len(labels) == 1000
    assert all(labels)


@pytest.mark.parametrize(
    ("label_id", "label"),
    [
        (0, "tench"), (1, "goldfish"), (207, "golden retriever"), (281, "tabby"), (285, "Egyptian cat"),
        (291, "lion"), (293, "cheetah"), (340, "zebra"), (386, "African elephant"), (404, "airliner"),
        (440, "beer bottle"), (504, "coffee mug"), (550, "espresso maker"), (609, "jeep"), (620, "laptop"),
        (707, "pay-phone"), (805, "soccer ball"), (817, "sports car"), (849, "teapot"), (920, "traffic light"),
        (950, "orange"), (954, "banana"), (967, "espresso"), (985, "daisy"), (999, "toilet tissue"),
    ],
)  # fmt: skip
def test_a_name_stands_at_its_class_number(label_id, label):
    """Anchors all along the list: a line lost anywhere would show."""
    assert read_labels()[label_id] == label
