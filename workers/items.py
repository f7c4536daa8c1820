"""The items of one request, through the cache: found there, made here, or made by a sibling that we wait for.

What falls to us is made before anybody is waited for, and committed as soon as it is checked. So nobody who waits is
waited for, and a request that ends badly afterwards harms none of those that wait for its items.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.drive import drive_item
from forebay.features import Processed
from forebay.media import Media
from forebay.plugins import LoadedProcessor
from forebay.processor import Prompt, TypedExtensions, Work
from forebay.task import MediaRef
from handoff.pool import Block, FeatureCache, Flight, Found, Sought
from workers.entries import Prepared, key_of, note_of, read_entry
from workers.reservation import Reservation
from workers.timings import Timings

log = logging.getLogger(__name__)

_FIRST_NAP_S, _LONGEST_NAP_S = 0.001, 0.01


@dataclass(slots=True)
class Items:
    """Prepares the items of one attempt at one request.

    Attributes:
        load: fetches and decodes a reference.
        give_up_at: ``time.monotonic()`` after which an item is no longer waited for, but made.
    """

    cache: FeatureCache
    reservation: Reservation
    loaded: LoadedProcessor
    extensions: TypedExtensions
    load: Callable[[MediaRef], Media]
    timings: Timings
    rid: str
    attempt: int
    give_up_at: float
    _ready: dict[bytes, Prepared] = field(default_factory=dict)
    _flights: dict[bytes, Flight] = field(default_factory=dict)

    def prepare(self, refs: Sequence[MediaRef], tenant: str) -> list[Prepared]:
        """Every item, in order; an item that stands there twice is one.

        Raises:
            Rejected: the caller's mistake; what was finished before stays in the cache.
            Failed: the processor's mistake, or no room in the pool.
        """
        keys = [key_of(ref, self.loaded, self.extensions, tenant) for ref in refs]
        wanted = dict(zip(keys, refs, strict=True))
        try:
            self._make_ours(wanted, self._sort(self._seek(list(wanted))))
            self._wait_for_the_others(wanted)
        finally:
            for flight in self._flights.values():
                self.cache.abandon(flight)
        return [self._ready[key] for key in keys]

    def _seek(self, keys: Sequence[bytes], *, again: bool = False) -> dict[bytes, Sought]:
        sought = self.cache.seek(keys, self.rid, self.attempt, again=again)
        return dict(zip(keys, sought, strict=True))

    def _sort(self, sought: Mapping[bytes, Sought]) -> list[bytes]:
        """Take in what was found, note what is ours, and name all that we are to make now."""
        for key, one in sought.items():
            if isinstance(one, Found):
                self.reservation.adopt(one.block)
                self._ready[key] = read_entry(one.block, one.note)
            elif isinstance(one, Flight):
                self._flights[key] = one
        return [key for key, one in sought.items() if one is None or isinstance(one, Flight)]

    def _make_ours(self, wanted: Mapping[bytes, MediaRef], keys: Sequence[bytes]) -> None:
        media = {key: self.load(wanted[key]) for key in keys}
        with self.timings.stage("reserve"):
            foreseen = [self.loaded.processor.feature_bytes(one) for one in media.values()]
            blocks = self.reservation.reserve_each(foreseen)
        for (key, one), block in zip(media.items(), blocks, strict=True):
            self._ready[key] = self._make(one, block, key)

    def _make(self, media: Media, block: Block | None, key: bytes) -> Prepared:
        work = Work(self.rid, Prompt(ids=()), (media,), self.extensions, self.reservation.empty_in(block))
        with self.timings.stage("process"):
            processed = drive_item(self.loaded.processor, self.loaded.capabilities, media, work)
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

    def _wait_for_the_others(self, wanted: Mapping[bytes, MediaRef]) -> None:
        nap = _FIRST_NAP_S
        while missing := [key for key in wanted if key not in self._ready]:
            if time.monotonic() > self.give_up_at:
                log.warning("others take too long", extra={"rid": self.rid, "items": len(missing)})
                self._make_ours(wanted, missing)
                return
            with self.timings.stage("wait"):
                time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)
            sought = self._seek(missing, again=True)
            self._make_ours(wanted, self._sort(sought))
