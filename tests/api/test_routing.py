"""Which model, which node, which lane: pure decisions over what is announced."""

from __future__ import annotations

from collections import Counter

import pytest

from api.routing import ReadyFor, choose_lane, choose_model, choose_node, lacks, served_models
from forebay import Failed, Rejected
from forebay.task import Kind
from handoff.nodes import NodeView, ProcessorOffer


def node(name: str, *models: str, engines: tuple[str, ...] = (), used: int = 0, size: int = 100) -> NodeView:
    offers = {model: ProcessorOffer(model, "f", {"image": 1}) for model in models}
    return NodeView(name, offers, engines, {"used_bytes": used, "data_bytes": size})


def test_the_only_model_need_not_be_named():
    """Over all nodes together."""
    assert choose_model(None, [node("a", "toy"), node("b", "toy")]) == "toy"


def test_of_several_models_one_must_be_named():
    """The message lists them."""
    with pytest.raises(Rejected, match="name one: other, toy") as caught:
        choose_model(None, [node("a", "toy"), node("b", "other")])

    assert (caught.value.code, caught.value.param) == ("model_required", "model")


@pytest.mark.parametrize("wanted", ["nobody", "", "toy ", "\ud800"])
def test_a_model_that_nobody_serves_is_not_found(wanted):
    """404, with those that are; also a name that is no text can be told."""
    with pytest.raises(Rejected, match="served are: toy") as caught:
        choose_model(wanted, [node("a", "toy")])

    assert (caught.value.code, caught.value.status) == ("model_not_found", 404)
    caught.value.message.encode()


def test_a_long_name_is_not_repeated_whole():
    """A message stays a sentence."""
    with pytest.raises(Rejected) as caught:
        choose_model("x" * 10_000, [node("a", "toy")])

    assert len(caught.value.message) < 200


def test_without_a_worker_there_is_nothing_to_choose():
    """503 and when to come again; an engine alone serves nobody."""
    for nodes in ([], [node("a", engines=("toy",))]):
        with pytest.raises(Failed) as caught:
            choose_model("toy", nodes)
        assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("no_workers", 503, 5)


def test_a_request_goes_to_the_node_with_the_emptiest_pool():
    """Measured as a share, so that a small node is not taken for an empty one."""
    nodes = [
        node("a", "toy", engines=("toy",), used=50),
        node("b", "toy", engines=("toy",), used=40, size=1000),
        node("c", "toy", engines=("toy",), used=10),
    ]

    assert choose_node("toy", Kind.GENERATE, nodes) == "b"


def test_nodes_that_are_equally_empty_share():
    """None has everything because of its name."""
    nodes = [node("b", "toy", engines=("toy",)), node("a", "toy", engines=("toy",))]

    chosen = Counter(choose_node("toy", Kind.GENERATE, nodes) for _ in range(200))

    assert min(chosen["a"], chosen["b"]) > 50


def test_a_node_that_has_not_told_its_pool_is_taken_for_empty():
    """It has just come up."""
    fresh = NodeView("z", {"toy": ProcessorOffer("toy", "f", {})}, ("toy",))

    assert choose_node("toy", Kind.GENERATE, [node("a", "toy", engines=("toy",), used=1), fresh]) == "z"


def test_features_stay_on_their_node_so_both_sides_must_be_there():
    """Shared memory is the node's: a processor here and an engine there are of no use."""
    apart = [node("a", "toy"), node("b", "other", engines=("toy",))]

    with pytest.raises(Rejected, match="/v1/preprocess works without one") as caught:
        choose_node("toy", Kind.GENERATE, apart)

    assert (caught.value.code, caught.value.status) == ("no_engine", 409)
    assert choose_node("toy", Kind.PREPROCESS, apart) == "a"


def test_preprocessing_goes_anywhere():
    """The emptiest, with an engine or without."""
    nodes = [node("a", "toy", engines=("toy",), used=1), node("b", "toy")]

    assert choose_node("toy", Kind.PREPROCESS, nodes) == "b"


def test_served_models_are_those_of_the_workers():
    """Each once."""
    nodes = [node("a", "toy", engines=("else",)), node("b", "toy", "other")]

    assert sorted(served_models(nodes)) == ["other", "toy"]


@pytest.mark.parametrize(
    ("sizes", "lane"),
    [
        ([], "text"),
        ([1], "interactive"),
        ([0], "interactive"),
        ([1 << 20] * 4, "interactive"),
        ([4 << 20], "interactive"),
        ([(4 << 20) + 1], "bulk"),
        ([1] * 5, "bulk"),
    ],
)
def test_a_lane_by_number_and_size_of_the_media(sizes, lane):
    """Text never waits behind media, small media not behind large ones."""
    assert choose_lane(sizes) == lane


@pytest.mark.parametrize(
    ("nodes", "ready_for", "lacking"),
    [
        ([], "generate", "no worker is up"),
        ([NodeView("a", {}, ("toy",), {"data_bytes": 1})], "generate", "no worker is up"),
        ([node("a", "toy", engines=("toy",), size=0)], "generate", "no node has a feature pool"),
        ([node("a", "toy")], "generate", "no scheduler is up"),
        ([node("a", "toy", engines=("other",))], "generate", "no scheduler is up"),
        ([node("a", "toy"), node("b", "other", engines=("toy",))], "generate", "no scheduler is up"),
        ([node("a", "toy")], "preprocess", ""),
        ([node("a", "toy", "mute", engines=("toy",))], "generate", ""),
    ],
)
def test_ready_is_what_could_be_done_now(nodes, ready_for, lacking):
    """Workers, a pool, and a scheduler on one node; unless features alone are wanted."""
    assert lacks(nodes, ReadyFor(ready_for)) == lacking


def test_an_engine_that_was_there_lately_is_away_not_missing():
    """The caller may come again: its scheduler is being restarted."""
    with pytest.raises(Failed, match="the scheduler of 'toy' is away") as caught:
        choose_node("toy", Kind.GENERATE, [node("a", "toy")], {"toy"})

    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("engine_away", 503, 2)
    assert choose_node("toy", Kind.PREPROCESS, [node("a", "toy")], {"toy"}) == "a"
