"""The shadow's process: it takes samples, prepares them again with its own processor, compares, and tells."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from forebay.drive import extensions_by_item
from forebay.errors import Failed, ForebayError, Rejected
from forebay.features import Output
from forebay.notify import notify
from forebay.plugins import LoadedProcessor, load_processor
from forebay.processor import WorkerStart
from forebay.task import BadTaskError, TaskBody
from handoff import shadow
from handoff.connection import Client, connect, require
from handoff.keys import Keys
from handoff.media import MediaStore, open_store
from handoff.sample import Sample, unpack_output
from handoff.scripts import perform
from handoff.shadow import Note, Wanted
from workers.cores import one_thread_each
from workers.loader import Loader
from workers.making import output_of, typed
from workers.shadow.comparing import Difference, compare
from workers.shadow.settings import ShadowSettings
from workers.timings import Timings

log = logging.getLogger(__name__)

_ASK_S = shadow.WANTED_S / 4
_NICE = 10  # its work gives way to the workers'
_REDIS_AWAY_S = 1.0


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
    tolerance: float

    def judge(self, sealed: bytes) -> Note | None:
        """Prepare a sample again and say what differs; ``None`` where it could not be compared."""
        try:
            sample = Sample.unpack(sealed, self.secret)
            first = unpack_output(self.store.get(sample.digest))
        except (BadTaskError, ValueError) as error:
            self._pass_over("unreadable", error)
            return None
        except Failed as error:
            self._pass_over("gone", error)
            return None
        began_s = time.process_time()
        try:
            second = self._again(sample.rid, sample.body)
        except Failed as error:
            if error.code == "media_missing":
                self._pass_over("gone", error)
                return None
            return self._note(sample, [Difference("failed", f"{error.code}: {error}")], 0.0, began_s)
        except Rejected as error:
            return self._note(sample, [Difference("refused", f"{error.code}: {error}")], 0.0, began_s)
        except Exception as error:
            log.warning("the processor on trial raised", extra={"rid": sample.rid}, exc_info=error)
            return self._note(sample, [Difference("failed", f"{type(error).__name__}: {error}")], 0.0, began_s)
        found, largest = compare(first, second, self.tolerance)
        return self._note(sample, found, largest, began_s)

    def _again(self, rid: str, body: TaskBody) -> Output:
        self.loader.begin()
        extensions = typed(self.loaded, body)
        own = extensions_by_item(self.loaded.processor, extensions, [ref.modality for ref in body.media])
        media = self.loader.load_all(body.media, self.loaded, own, Timings())
        return output_of(self.loaded, rid, body, extensions, media)

    def _note(self, sample: Sample, found: list[Difference], largest: float, began_s: float) -> Note:
        spent_ms = round(1000 * (time.process_time() - began_s), 3)
        kinds = tuple(sorted({one.kind for one in found}))
        said = tuple(one.said[:300] for one in found[:10])
        fingerprints = sample.fingerprint, self.loaded.fingerprint
        return Note(sample.rid, kinds, said, largest, (sample.cpu_ms, spent_ms), fingerprints)

    def _pass_over(self, why: str, error: Exception) -> None:
        log.warning("sample passed over", extra={"why": why, "reason": str(error)})
        perform(self.redis, shadow.passed_over(self.keys, self.loaded.name, why))

    def tell(self, note: Note) -> None:
        """Count it, and say in the log what differs."""
        perform(self.redis, shadow.note(self.keys, self.loaded.name, note))
        if note.kinds:
            told = {"rid": note.rid, "model": self.loaded.name, "in": ", ".join(note.kinds)}
            log.warning("prepared otherwise", extra={**told, "first": note.said[0]})


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
    redis, keys = connect(settings.redis_url, f"shadow-{settings.model.name}"), Keys(settings.prefix)
    store = open_store(settings.media, redis, keys)
    loader = Loader(store, _Unmarked(), settings.item_limits, settings.video_salvage)
    one = Shadow(loaded, redis, keys, store, settings.secret, loader, settings.tolerance)
    _serve(one, Wanted(settings.share, settings.max_bytes), _stopping())
    return 0


def _stopping() -> threading.Event:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


def _serve(one: Shadow, wanted: Wanted, stop: threading.Event) -> None:
    model, is_ready = one.loaded.name, False
    asked_at = -_ASK_S
    while not stop.is_set():
        try:
            if time.monotonic() - asked_at >= _ASK_S:
                shadow.ask(one.redis, one.keys, model, wanted)
                asked_at = time.monotonic()
            if not is_ready:
                is_ready = True
                log.info("shadow ready", extra={"model": model, "fingerprint": one.loaded.fingerprint})
                notify(READY=1)
            sealed = shadow.pop(one.redis, one.keys, model, within_s=1)
            note = None if sealed is None else one.judge(sealed)
            if note is not None:
                one.tell(note)
        except ForebayError as error:
            log.warning("the shadow waits", extra={"reason": str(error)})
            stop.wait(_REDIS_AWAY_S)
    try:
        shadow.stop_asking(one.redis, one.keys, model)
    except ForebayError as error:
        log.warning("the shadow could not say that it stops", extra={"reason": str(error)})
