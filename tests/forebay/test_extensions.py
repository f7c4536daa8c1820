"""The extension map: what is carried exactly, and what is refused by name."""

import json

import msgpack
import pytest

from forebay import Rejected
from forebay.extensions import MAX_BYTES, MAX_DEPTH, check_carried, extract


def nested(levels):
    value = 1
    for _ in range(levels - 1):
        value = [value]
    return value


def test_only_fields_with_the_prefix_are_extensions():
    """Everything else of a body belongs to the host or to nobody."""
    body = {"text": "a", "multimodal_a": 1, "Multimodal_b": 2, "MULTIMODAL_C": 3, "multimodal": 4, "x_multimodal_d": 5}

    assert extract(body) == {"multimodal_a": 1}


def test_null_is_as_good_as_absent():
    """A client library that writes null for what is not set asks for nothing."""
    assert extract({"multimodal_a": None}) == {}


@pytest.mark.parametrize("value", [False, 0, "", {}, [], [None], {"a": None}, -0.0, 0.1, "é", 2**64 - 1, -(2**63)])
def test_a_value_is_carried_exactly(value):
    """False, zero and empty are values; so is every integer of 64 bits, signed or not."""
    carried = extract(json.loads(json.dumps({"multimodal_x": value})))

    again = msgpack.unpackb(msgpack.packb(carried))["multimodal_x"]

    assert repr(again) == repr(value)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**40])
def test_an_integer_beyond_64_bits_is_refused_by_name(value):
    """MessagePack has no room for it; better to say so than to fail before the queue."""
    with pytest.raises(Rejected, match="multimodal_x is an integer beyond 64 bits") as caught:
        extract({"multimodal_x": value})

    assert (caught.value.code, caught.value.param, caught.value.status) == ("invalid_number", "multimodal_x", 400)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), json.loads("1e999")])
def test_a_number_that_is_not_finite_is_refused_with_its_path(value):
    """It could not be written in an answer that a strict parser reads."""
    with pytest.raises(Rejected, match=r"multimodal_x\.crop\[1\] is -?(nan|inf); numbers must be finite"):
        extract({"multimodal_x": {"crop": [1, value]}})


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"multimodal_x": "\ud800"}, "multimodal_x holds"),
        ({"multimodal_x": {"a": ["\udfff"]}}, r"multimodal_x\.a\[0\] holds"),
        ({"multimodal_x": {"\ud800": 1}}, "multimodal_x holds"),
        ({"multimodal_\ud800": 1}, "the name of a field holds"),
    ],
)
def test_a_lone_surrogate_is_refused_wherever_it_stands(body, named):
    """JSON can spell it, UTF-8 cannot carry it: as a value, as a key and as the name of the field."""
    with pytest.raises(Rejected, match=named) as caught:
        extract(body)

    assert caught.value.code == "invalid_text"


def test_depth_is_bounded_at_the_edge():
    """The deepest map that is taken, and one level more."""
    assert extract({"multimodal_x": nested(MAX_DEPTH)})

    with pytest.raises(Rejected, match="is nested deeper than 32 levels") as caught:
        extract({"multimodal_x": nested(MAX_DEPTH + 1)})

    assert caught.value.code == "extension_too_deep"


def test_size_is_bounded_with_both_numbers():
    """The whole map counts, packed as it travels."""
    overhead = len(msgpack.packb({"multimodal_x": "a" * 100_000})) - 100_000
    fits = "a" * (MAX_BYTES - overhead)

    assert extract({"multimodal_x": fits})
    with pytest.raises(Rejected, match=f"takes {MAX_BYTES + 1} bytes; the limit is {MAX_BYTES}") as caught:
        extract({"multimodal_x": fits + "a"})

    assert caught.value.code == "extensions_too_large"


def test_another_carried_field_is_held_to_the_same_rules_under_its_own_name():
    """Sampling parameters travel unread too; a message that named another field would mislead."""
    check_carried({"temperature": 0.5, "stop": ["\n"]}, "sampling_params")

    with pytest.raises(Rejected, match=r"^sampling_params\.temperature is inf"):
        check_carried({"temperature": float("inf")}, "sampling_params")
    with pytest.raises(Rejected, match=r"^sampling_params takes \d+ bytes"):
        check_carried({"stop": "a" * MAX_BYTES}, "sampling_params")
