"""What a worker's child does for a model's shadow: leave it samples, if it has asked for any."""

from __future__ import annotations

import logging
import time
import zlib
from dataclasses import dataclass, field

from forebay.errors import ForebayError
from forebay.features import Output
from forebay.media import digest_of
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


@dataclass(slots=True)
class Offering:
    """Makes samples for one child. What goes wrong here is no request's trouble: it is logged."""

    redis: Client
    keys: Keys
    store: MediaStore
    secret: bytes
    _known: dict[str, tuple[float, Wanted | None]] = field(default_factory=dict)
    """By model what was wanted, and when that was read."""

    def copied(self, job: Job, output: Output) -> bytes | None:
        """A copy of an output, if its request is one for a shadow; to be made while the output is still ours."""
        model, rid = job.task.model, job.task.rid
        try:
            wanted = self._wanted(model)
            if wanted is None or not is_chosen(rid, wanted.share):
                return None
            size = size_of(output)
            if size > wanted.max_bytes or not shadow.has_room(self.redis, self.keys, model):
                why = "too large" if size > wanted.max_bytes else "too many wait"
                perform(self.redis, shadow.passed_over(self.keys, model, why))
                return None
            return pack_output(output)
        except (ForebayError, MemoryError) as error:
            _tell(rid, error)
            return None

    def offer(self, job: Job, copy: bytes, fingerprint: str, cpu_ms: float) -> None:
        """Leave a sample, once its request has gone on."""
        digest = digest_of(copy)
        sample = Sample(job.task.rid, fingerprint, round(cpu_ms, 3), digest, job.body)
        try:
            self.store.put(digest, copy)
            shadow.push(self.redis, self.keys, job.task.model, sample.pack(self.secret))
        except ForebayError as error:
            _tell(job.task.rid, error)

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
