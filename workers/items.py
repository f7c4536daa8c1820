"""The items of one request, through the cache: found there, made here, or made by a sibling that we wait for.

Nobody waits who is waited for. What falls to us is made, and committed as soon as it is checked, before a sibling is
waited for; and who finds no room gives up everything, holds and promises alike, before it stands in line. So a request
that ends badly, or waits long, harms none of those that want its items.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.features import Processed
from forebay.plugins import LoadedProcessor
from forebay.processor import Prompt, TypedExtensions, Work
from forebay.ready_made import Item, bytes_of, process
from forebay.task import MediaRef
from handoff.pool import Block, FeatureCache, Flight, Found, Sought
from workers.decode.salvage import told_of
from workers.entries import Prepared, key_of, note_of, read_entry
from workers.reservation import Reservation, with_slack
from workers.timings import Timings

log = logging.getLogger(__name__)

_FIRST_NAP_S, _LONGEST_NAP_S = 0.001, 0.01
_BESIDE = b""  # stands for the block of token ids and positions
_BYTES_A_TOKEN = 32  # an id, and a position on three axes
_SHARE = 256  # of features, for the tokens that stand for them: 32 bytes, against several KiB behind each


@dataclass(slots=True)
class Items:
    """Prepares the items of one attempt at one request.

    Attributes:
        extensions: for each item what of the request's extension map is about it.
        load: fetches and decodes a reference, as what is about it wants it.
        give_up_at: ``time.monotonic()`` after which an item is no longer waited for, but made.
    """

    cache: FeatureCache
    reservation: Reservation
    loaded: LoadedProcessor
    extensions: Sequence[TypedExtensions]
    load: Callable[[MediaRef, TypedExtensions], Item]
    timings: Timings
    rid: str
    attempt: int
    give_up_at: float
    prompt_tokens: int = 0
    """Before the items' tokens are in; room for ids and positions is taken with the items'."""
    video_salvage: bool = False
    """Whether ``load`` takes a damaged video for what decodes of it."""
    _own: dict[bytes, TypedExtensions] = field(default_factory=dict)
    _ready: dict[bytes, Prepared] = field(default_factory=dict)
    _flights: dict[bytes, Flight] = field(default_factory=dict)
    _media: dict[bytes, Item] = field(default_factory=dict)
    _sizes: dict[bytes, int] = field(default_factory=dict)
    _blocks: dict[bytes, Block] = field(default_factory=dict)
    """Blocks that are reserved and not written yet, by what they are for."""

    def prepare(self, refs: Sequence[MediaRef], tenant: str) -> list[Prepared]:
        """Every item, in order; an item that stands there twice is one.

        Raises:
            Rejected: the caller's mistake; what was finished before stays in the cache.
            Failed: the processor's mistake, or no room in the pool.
        """
        keys = [
            key_of(ref, self.loaded, own, tenant, video_salvage=self.video_salvage)
            for ref, own in zip(refs, self.extensions, strict=True)
        ]
        wanted = dict(zip(keys, refs, strict=True))
        self._own = dict(zip(keys, self.extensions, strict=True))
        try:
            while not self._try(wanted):
                self._wait_for_room(wanted)
        finally:
            self._abandon_flights()
        for key, block in self._blocks.items():
            if key != _BESIDE:
                self.reservation.give_back(block)  # its item was found meanwhile
        return [self._ready[key] for key in keys]

    def _try(self, wanted: Mapping[bytes, MediaRef]) -> bool:
        """Have every item ready; ``False`` when there is no room."""
        nap, again = _FIRST_NAP_S, False
        while missing := [key for key in wanted if key not in self._ready]:
            if again:
                if time.monotonic() > self.give_up_at:
                    log.warning("others take too long", extra={"rid": self.rid, "items": len(missing)})
                    return self._make_ours(wanted, missing)
                with self.timings.stage("wait"):
                    time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP_S)
            if not self._make_ours(wanted, self._sort(self._seek(missing, again=again))):
                return False
            again = True
        return True

    def _wait_for_room(self, wanted: Mapping[bytes, MediaRef]) -> None:
        """Stand in line for everything that we know we need, with empty hands."""
        self._ready.clear()
        self._blocks.clear()
        self._abandon_flights()
        self.reservation.give_back_all()
        keys = [_BESIDE, *(key for key in wanted if self._sizes.get(key))]
        with self.timings.stage("reserve"):
            blocks = self.reservation.wait_for([self._sizes[key] for key in keys])
        self._blocks = dict(zip(keys, blocks, strict=True))

    def _abandon_flights(self) -> None:
        for flight in self._flights.values():
            self.cache.abandon(flight)
        self._flights.clear()

    def _seek(self, keys: Sequence[bytes], *, again: bool = False) -> dict[bytes, Sought]:
        sought = self.cache.seek(keys, self.rid, self.attempt, again=again)
        return dict(zip(keys, sought, strict=True))

    def _sort(self, sought: Mapping[bytes, Sought]) -> list[bytes]:
        """Take in what was found, note what is ours, and name all that we are to make now."""
        for key, one in sought.items():
            if isinstance(one, Found):
                self.reservation.adopt(one.block)
                self._ready[key] = read_entry(one.block, one.note)
                self._sizes[key] = one.block.handle.length
            elif isinstance(one, Flight):
                self._flights[key] = one
        return [key for key, one in sought.items() if one is None or isinstance(one, Flight)]

    def _make_ours(self, wanted: Mapping[bytes, MediaRef], keys: Sequence[bytes]) -> bool:
        """Make these items; ``False``, and nothing is made, when there is no room for all of them."""
        for key in keys:
            self._load(key, wanted[key])
        with self.timings.stage("reserve"):
            if not self._reserve(keys):
                return False
        for key in keys:
            self._ready[key] = self._make(self._media.pop(key), self._blocks.pop(key, None), key)
        return True

    def _load(self, key: bytes, ref: MediaRef) -> None:
        if key in self._media:
            return
        self._media[key] = media = self.load(ref, self._own[key])
        size = bytes_of(self.loaded, media, self._own[key])
        self._sizes[key] = with_slack(size) if size else 0
        self.reservation.check_fits(sum(self._sizes.values()))  # before the next one is decoded

    def _reserve(self, keys: Sequence[bytes]) -> bool:
        """A block for each item whose size is foreseen, and one for what lies beside them, all of them or none."""
        self._sizes[_BESIDE] = with_slack(_BYTES_A_TOKEN * self.prompt_tokens + sum(self._sizes.values()) // _SHARE)
        needed = [key for key in (_BESIDE, *keys) if self._sizes[key] and key not in self._blocks]
        if not needed:
            return True
        blocks = self.reservation.take_now([self._sizes[key] for key in needed])
        if blocks is None:
            return False
        self._blocks.update(zip(needed, blocks, strict=True))
        return True

    def _make(self, media: Item, block: Block | None, key: bytes) -> Prepared:
        work = Work(self.rid, Prompt(ids=()), (), self._own[key], self.reservation.empty_in(block))
        with self.timings.stage("process"):
            processed = process(self.loaded, media, work)
        processed = replace(processed, model_specific={**processed.model_specific, **told_of(media)})
        processed = self._settled(processed, block)
        made = Prepared(media.modality, media.digest, media.hash, processed, is_cached=False)
        flight = self._flights.pop(key, None)
        if flight is not None:
            with self.timings.stage("write"):
                self._commit(made, flight, key)
        return made

    def _settled(self, processed: Processed, block: Block | None) -> Processed:
        """The same, in the pool."""
        feature = processed.feature
        array = self.reservation.settle(feature.array.reshape(feature.shape), feature.dtype, block)
        return replace(processed, feature=replace(feature, array=array))

    def _commit(self, made: Prepared, flight: Flight, key: bytes) -> None:
        """Make it the entry of its key, with a note beside it. Without room for the note it serves only us."""
        feature = made.processed.feature
        at = self.reservation.find(feature.array, feature.dtype)
        assert at is not None  # it was settled
        note, block = note_of(made, at).pack(), self.reservation.block(at)
        start = block.write(note)
        if start is None:
            log.info("item not cached", extra={"rid": self.rid, "digest": made.digest})
            self.cache.abandon(flight)
            return
        block.seal()
        self.cache.commit(flight, key, block.handle, (start, len(note)))
