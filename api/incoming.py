"""What a body asks for, checked and in one form: a call of one or several requests, before their media are resolved."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from api.fetch.shared import Name, Shared
from api.sources import FETCHED, scheme_of
from api.tenants import ANYBODY, Tenant
from forebay.errors import Rejected
from forebay.features import Modality
from forebay.processor import Prompt
from handoff.ready_made import SentFeature


@dataclass(frozen=True, slots=True)
class Source:
    """A media item as the caller sent it.

    Attributes:
        text: what stands for its bytes; empty where ``frames`` do.
        frames: the pictures of a list that is one video, each with its place.
        fps: how many of them are shown a second.
        sent: what ``text`` is where it is no media but a feature of the item, in base64.
    """

    modality: Modality
    text: str
    param: str
    frames: tuple[Source, ...] = ()
    fps: float = 0.0
    sent: SentFeature | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether its bytes must be fetched."""
        return self.sent is None and scheme_of(self.text) in FETCHED

    @property
    def leaves(self) -> tuple[Source, ...]:
        """What has bytes of its own."""
        return self.frames or (self,)


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request. ``samples`` is how many answers it wants; it is prepared once for all of them."""

    prompt: Prompt
    sources: tuple[Source, ...]
    caller_hashes: tuple[str, ...] = ()
    extensions: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1
    stream: bool = False
    rid: str | None = None
    model: str | None = None
    priority: int = 0
    timeout_ms: int | None = None
    features: str = "sha256"
    tenant: Tenant = ANYBODY
    shared: Shared = field(default_factory=Shared)
    """The transfers of its call."""


Slot = Incoming | Rejected
"""A request of a batch, or what is wrong with it alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One body: its requests in order. A single request that is wrong never becomes a call."""

    slots: tuple[Slot, ...]
    is_batch: bool
    stream: bool

    def of(self, tenant: Tenant) -> Call:
        """The same, with its tenant and an id on every request, so that whatever goes wrong can be told by it."""
        named = Counter(name for slot in self.slots for name in _names(slot))
        shared = Shared({name for name, prompts in named.items() if prompts > 1})
        return replace(self, slots=tuple(_owned(slot, tenant, shared) for slot in self.slots))

    @property
    def only(self) -> Incoming:
        """The request of a call that is no batch."""
        [slot] = self.slots
        assert isinstance(slot, Incoming)
        return slot


def _names(slot: Slot) -> set[Name]:
    """Everything that is to be fetched for a prompt, once."""
    sources = () if isinstance(slot, Rejected) else slot.sources
    leaves = (leaf for source in sources for leaf in source.leaves)
    return {(leaf.text, leaf.param) for leaf in leaves if leaf.is_elsewhere}


def _owned(slot: Slot, tenant: Tenant, shared: Shared) -> Slot:
    if isinstance(slot, Rejected):
        return slot
    return replace(slot, rid=slot.rid or secrets.token_hex(16), tenant=tenant, shared=shared)
