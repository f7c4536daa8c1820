"""What a worker's child does for a model's shadow: leave it samples, if it has asked for any."""

from __future__ import annotations

import logging
import time
import zlib
from dataclasses import dataclass, field

from forebay.features import Output
from forebay.media import digest_of
from forebay.task import TaskBody
from handoff import shadow
from handoff.connection import Client
from handoff.keys import Keys
from handoff.media import MediaStore
from handoff.sample import Sample, pack_output, size_of
from handoff.scripts import perform
from handoff.shadow import Wanted
from workers.job import Job

log = logging.getLogger(__name__)

_FRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class Copied:
    """A request's output, copied while it was ours."""

    model: str
    rid: str
    body: TaskBody
    output: bytes
    fingerprint: str
    cpu_ms: float


@dataclass(slots=True)
class Offering:
    """Makes samples for one child. Whatever goes wrong here is no request's trouble: it is logged."""

    redis: Client
    keys: Keys
    store: MediaStore
    secret: bytes
    _known: dict[str, tuple[float, Wanted | None]] = field(default_factory=dict)
    """By model what was wanted, and when that was read."""
    _copied: Copied | None = None

    def forget(self) -> None:
        """Nothing of the request in hand is to be handed over."""
        self._copied = None

    def copy(self, job: Job, output: Output, fingerprint: str, cpu_ms: float) -> None:
        """Copy an output while it is still ours, if its request is one for a shadow."""
        model, rid = job.task.model, job.task.rid
        try:
            wanted = self._wanted(model)
            if wanted is None or not is_chosen(rid, wanted.share) or not self._fits(model, output, wanted):
                return
            self._copied = Copied(model, rid, job.body, pack_output(output), fingerprint, round(cpu_ms, 3))
        except Exception as error:  # noqa: BLE001 - nothing of a shadow may end a request
            _tell(rid, error)

    def _fits(self, model: str, output: Output, wanted: Wanted) -> bool:
        why = ""
        if size_of(output) > wanted.max_bytes:
            why = "too large"
        elif not shadow.has_room(self.redis, self.keys, model):
            why = "too many wait"
        if why:
            perform(self.redis, shadow.passed_over(self.keys, model, why))
        return not why

    def hand_over(self) -> None:
        """Leave what was copied as a sample; its request has gone on, and nothing is held for it any more."""
        copied, self._copied = self._copied, None
        if copied is None:
            return
        try:
            digest = digest_of(copied.output)
            sample = Sample(copied.rid, copied.fingerprint, copied.cpu_ms, digest, copied.body)
            self.store.put(digest, copied.output)
            shadow.push(self.redis, self.keys, copied.model, sample.pack(self.secret))
        except Exception as error:  # noqa: BLE001 - as above
            _tell(copied.rid, error)

    def _wanted(self, model: str) -> Wanted | None:
        read_at, wanted = self._known.get(model, (-_FRESH_S, None))
        now = time.monotonic()
        if now - read_at >= _FRESH_S:
            wanted = shadow.wanted_of(self.redis, self.keys, model)
            self._known[model] = now, wanted
        return wanted


def is_chosen(rid: str, share: float) -> bool:
    """Whether a request is among a share of all. The same one always is, or never."""
    return zlib.crc32(rid.encode()) < share * 2**32


def _tell(rid: str, error: Exception) -> None:
    log.warning("no sample for the shadow", extra={"rid": rid, "reason": f"{type(error).__name__}: {error}"})
