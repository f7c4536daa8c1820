"""What the tests of the feature cache share: pictures, a processor that counts, and looking at what it led to."""

from __future__ import annotations

from typing import Any

from forebay import ModelSource, Processed
from forebay.ticket import Ticket
from handoff.pool import EntryInfo, FeatureCache
from tests.support.media import plain_png
from tests.support.node import Node
from tests.support.toys import Toy
from tests.support.ways import MODEL
from workers.driver import Driver

RED, GREEN = plain_png(2, 3, (200, 0, 0)), plain_png(2, 2, (0, 200, 0))


class Counting(Toy):
    """Counts what it makes, and may be told to take its time or to fail."""

    def __init__(self, before: Any = lambda media: None) -> None:
        super().__init__(ModelSource(MODEL))
        self.made, self.before = [], before

    def process_item(self, media: Any, work: Any) -> Processed:
        self.made.append(media.digest)
        self.before(media)
        return super().process_item(media, work)


def run(node: Node, driver: Driver, *pictures: bytes, rid: str, **body: Any) -> Ticket:
    """One request; its ticket, claimed by a scheduler."""
    driver.run(node.task(*(node.reference(data) for data in pictures), rid=rid, token=f"t-{rid}", **body))
    assert node.way.state(rid) == "parked", node.way.record(rid).problem
    [claimed] = node.way.claim(f"claim of {rid}")
    assert claimed.rid == rid
    return Ticket.unpack(claimed.ticket)


def features(node: Node, ticket: Ticket) -> list[Any]:
    """The features that a ticket leads to, taken as a scheduler takes them."""
    blocks = [node.pool.take(handle) for handle in ticket.blocks]
    return [blocks[item.feature.block].array(item.feature).tolist() for item in ticket.items]


def entries(node: Node) -> list[EntryInfo]:
    """What is cached."""
    return FeatureCache(node.pool).entries()


def places(node: Node, ticket: Ticket) -> list[int]:
    """Where in the pool each item's feature begins."""
    return [ticket.blocks[item.feature.block].offset + item.feature.start for item in ticket.items]
