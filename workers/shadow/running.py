"""The shadow's process: it takes samples, prepares them again with its own processor, compares, and tells."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from forebay.drive import extensions_by_item
from forebay.errors import ConfigurationError, Failed, ForebayError, Rejected
from forebay.features import Output
from forebay.notify import notify
from forebay.outcome import outcome_of
from forebay.plugins import LoadedProcessor, load_processor
from forebay.processor import WorkerStart
from forebay.task import BadTaskError, TaskBody
from handoff import shadow
from handoff.connection import Client, connect, require
from handoff.keys import Keys
from handoff.media import MediaStore, open_store
from handoff.queue import LIMITS
from handoff.sample import Sample, unpack_output
from handoff.scripts import perform
from handoff.shadow import Note, Wanted
from workers.cores import limit_threads, one_thread_each
from workers.loader import Loader
from workers.making import output_of, typed
from workers.shadow.apart import Apart, LostError, StoppedError
from workers.shadow.comparing import Difference, compare
from workers.shadow.settings import ShadowSettings
from workers.timings import Timings

log = logging.getLogger(__name__)

_ASK_S = shadow.WANTED_S / 4
_NICE = 10  # its work gives way to the workers'
_REDIS_AWAY_S = 1.0


_NOT_ITS_FAULT = {
    "media_missing": "gone",
    "redis_unavailable": "unreachable",
    "redis_refused": "unreachable",
    "media_too_slow": "too slow",  # a shadow is nice to others
    "media_too_costly": "too costly",
}
"""Why a sample is passed over, by the code that it ends with here."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A sample that was not compared."""

    why: str
    reason: str


class _Unmarked:
    """No janitor looks at what this process is at."""

    @contextmanager
    def marked(self, _text: str) -> Iterator[None]:
        yield


@dataclass(slots=True)
class Shadow:
    """Everything that the process needs for a sample."""

    loaded: LoadedProcessor
    redis: Client
    keys: Keys
    store: MediaStore
    secret: bytes
    loader: Loader
    tolerance: float = 0.0
    limit_s: float = LIMITS.soft_s

    def take(self, sealed: bytes, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Prepare a sample again, in a process of its own, and tell what differs."""
        try:
            sample = Sample.unpack(sealed, self.secret)
        except (BadTaskError, ValueError) as error:
            self._pass_over("unreadable", str(error))
            return
        try:
            self._tell(Apart(lambda: self.judge(sample)).result(self.limit_s, is_stopped))
        except LostError as error:
            self._tell(self._note(sample, [Difference("failed", str(error))]))
        except StoppedError:
            self._pass_over("stopped", sample.rid)
        finally:
            self.store.discard(sample.digest)

    def judge(self, sample: Sample) -> Note | PassedOver:
        """What a sample shows."""
        began_s = time.process_time()
        try:
            first = unpack_output(self.store.get(sample.digest))
            second = self._again(sample.rid, sample.body)
        except ValueError as error:
            return PassedOver("unreadable", str(error))
        except (Rejected, Failed) as error:
            why = _NOT_ITS_FAULT.get(error.code)
            if why:
                return PassedOver(why, error.message)
            kind = "refused" if isinstance(error, Rejected) else "failed"
            return self._note(sample, [Difference(kind, f"{error.code}: {error}")], began_s=began_s)
        except Exception as error:
            log.warning("the processor on trial raised", extra={"rid": sample.rid}, exc_info=error)
            return self._note(sample, [Difference("failed", outcome_of(error))], began_s=began_s)
        found, largest = compare(first, second, self.tolerance)
        return self._note(sample, found, largest, began_s)

    def _again(self, rid: str, body: TaskBody) -> Output:
        self.loader.begin()
        extensions = typed(self.loaded, body)
        own = extensions_by_item(self.loaded.processor, extensions, [ref.modality for ref in body.media])
        media = self.loader.load_all(body.media, self.loaded, own, Timings())
        try:
            return output_of(self.loaded, rid, body, extensions, media)
        except ValueError as error:  # not to be taken for one of ours
            raise Failed("internal_error", outcome_of(error)) from error

    def _note(
        self, sample: Sample, found: list[Difference], largest: float = 0.0, began_s: float | None = None
    ) -> Note:
        spent_ms = 0.0 if began_s is None else round(1000 * (time.process_time() - began_s), 3)
        kinds = tuple(sorted({one.kind for one in found}))
        said = tuple(one.said[:300] for one in found[:10])
        fingerprints = sample.fingerprint, self.loaded.fingerprint
        return Note(sample.rid, kinds, said, largest, (sample.cpu_ms, spent_ms), fingerprints)

    def _tell(self, judged: Note | PassedOver) -> None:
        """Count it, and say in the log what differs."""
        if isinstance(judged, PassedOver):
            self._pass_over(judged.why, judged.reason)
            return
        perform(self.redis, shadow.note(self.keys, self.loaded.name, judged))
        if judged.kinds:
            told = {"rid": judged.rid, "model": self.loaded.name, "in": ", ".join(judged.kinds)}
            log.warning("prepared otherwise", extra={**told, "first": judged.said[0]})

    def _pass_over(self, why: str, reason: str) -> None:
        log.warning("sample passed over", extra={"why": why, "reason": reason})
        perform(self.redis, shadow.passed_over(self.keys, self.loaded.name, why))

    def leave(self) -> None:
        """Want no more, and take away what waits."""
        shadow.stop_asking(self.redis, self.keys, self.loaded.name)
        while (sealed := shadow.pop(self.redis, self.keys, self.loaded.name)) is not None:
            try:
                self.store.discard(Sample.unpack(sealed, self.secret).digest)
            except (BadTaskError, ValueError) as error:
                self._pass_over("unreadable", str(error))


def run_shadow(settings: ShadowSettings) -> int:
    """Run until told to stop; the exit status.

    Raises:
        ConfigurationError: the processor cannot be loaded, or Redis is not there.
    """
    require(settings.redis_url)
    one_thread_each()
    os.nice(_NICE)
    loaded = load_processor(settings.model, settings.allowed_packages)
    loaded.processor.start_worker(WorkerStart(0, ()))
    limit_threads(1)
    redis, keys = connect(settings.redis_url, f"shadow-{settings.model.name}"), Keys(settings.prefix)
    store = open_store(settings.media, redis, keys)
    loader = Loader(store, _Unmarked(), settings.item_limits, settings.video_salvage)
    one = Shadow(loaded, redis, keys, store, settings.secret, loader, settings.tolerance, settings.soft_limit_s)
    return _serve(one, Wanted(settings.share, settings.max_bytes, secrets.token_hex(4)), _stopping())


def _stopping() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _serve(one: Shadow, wanted: Wanted, stop: threading.Event) -> int:
    """Ask, take and tell until it is stopped; the exit status."""
    _begin(one, wanted, stop)
    if shadow.begin(one.redis, one.keys, one.loaded.name, one.loaded.fingerprint):
        log.info("what another version has shown is forgotten", extra={"model": one.loaded.name})
    asked_at = time.monotonic()
    while not stop.is_set():
        try:
            if time.monotonic() - asked_at >= _ASK_S:
                asked_at = time.monotonic()
                if not shadow.ask(one.redis, one.keys, one.loaded.name, wanted):
                    log.error("another shadow has taken over", extra={"model": one.loaded.name})
                    return 1
            sealed = shadow.pop(one.redis, one.keys, one.loaded.name, within_s=1)
            if sealed is not None:
                one.take(sealed, stop.is_set)
        except ForebayError as error:
            log.warning("the shadow waits", extra={"reason": str(error)})
            stop.wait(_REDIS_AWAY_S)
    try:
        one.leave()
    except ForebayError as error:
        log.warning("the shadow could not say that it stops", extra={"reason": str(error)})
    return 0


def _begin(one: Shadow, wanted: Wanted, stop: threading.Event) -> None:
    """Be the model's shadow. One that died without a word is waited for.

    Raises:
        ConfigurationError: another one is there.
    """
    model, give_up_at = one.loaded.name, time.monotonic() + 1.5 * shadow.WANTED_S
    while not shadow.ask(one.redis, one.keys, model, wanted):
        if time.monotonic() > give_up_at:
            raise ConfigurationError(f"another shadow of {model!r} is running")
        stop.wait(_ASK_S / 2)
    log.info("shadow ready", extra={"model": model, "fingerprint": one.loaded.fingerprint})
    notify(READY=1)
