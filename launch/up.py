"""The composition of the one-machine run: which parts there are, and what each is told."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.errors import ConfigurationError, Failed
from forebay.exposure import check_exposure
from forebay.model import ModelSource
from forebay.plugins import ENGINES, PROCESSORS, engine_class, names
from forebay.settings import installation_of
from handoff.connection import answers, connect, redis_failures, without_password
from handoff.keys import Keys
from handoff.pool import Placement, Pool
from launch import redis_server
from launch.folders import Folders
from launch.part import Part, adopt_orphans
from launch.redis_server import EmbeddedRedis
from launch.settings import UpSettings
from launch.supervisor import EndedError, Supervisor

_FOREBAY = (sys.executable, "-m", "forebay")


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the run can be reached."""

    api: str
    flower: str | None


@dataclass(slots=True)
class Run:
    """A run in the making: folders, sockets and the environment that its parts share."""

    settings: UpSettings
    folders: Folders
    say: Callable[[str], None]
    embedded: EmbeddedRedis | None
    listening: socket.socket
    flower_port: int | None
    secret: str

    @property
    def deployment(self) -> str:
        """The run's own Redis has one deployment; on another's, ours must not meet anybody's."""
        return self.settings.deployment or ("forebay" if self.embedded else self.folders.name)

    @property
    def redis_url(self) -> str:
        return self.embedded.url if self.embedded else str(self.settings.redis_url)

    @property
    def urls(self) -> Urls:
        host, port = self.listening.getsockname()[:2]
        flower = None if self.flower_port is None else f"http://127.0.0.1:{self.flower_port}"
        return Urls(f"http://{host}:{port}", flower)

    @property
    def environment(self) -> dict[str, str]:
        """What every part is told."""
        settings = self.settings
        media = (settings.data_dir or self.folders.disk) / "media"
        env = {
            "FOREBAY_SECRET": self.secret,
            "REDIS_URL": self.redis_url,
            "FOREBAY_DEPLOYMENT": self.deployment,
            "FOREBAY_NODE": "local" if self.embedded else self.folders.name,
            "FOREBAY_RUN_DIR": str(self.folders.shm),
            "FOREBAY_POOL_BYTES": str(settings.pool_bytes),
            "FOREBAY_MEDIA": f"spool:{media}",
            "FOREBAY_MODELS": ",".join(map(str, settings.models)),
            "FOREBAY_FEATURE_DTYPE": str(settings.feature_dtypes),
            "FOREBAY_EVENTS": "1" if self.flower_port else "0",
            "FOREBAY_LOG_LEVEL": settings.log_level,
            "TMPDIR": str(self.folders.disk),  # what libraries leave there goes with the run
        }
        if settings.cache_bytes is not None:
            env["FOREBAY_CACHE_BYTES"] = str(settings.cache_bytes)
        if settings.processors.by_model:
            env["FOREBAY_PROCESSOR"] = str(settings.processors)
        if settings.allowed_packages:
            env["FOREBAY_ALLOW_PACKAGES"] = ",".join(settings.allowed_packages)
        if settings.workers:
            env["FOREBAY_WORKERS"] = str(settings.workers)
        if settings.cores:
            env["FOREBAY_CORES"] = ",".join(map(str, settings.cores))
        return env

    def redis_part(self) -> Part:
        assert self.embedded is not None
        return Part("redis", self.embedded.argv, is_ready=lambda: answers(self.redis_url))

    def worker_parts(self) -> list[Part]:
        """The worker, and a scheduler for every model that has an engine."""
        env = self.environment
        parts = [Part("worker", [*_FOREBAY, "worker"], env)]
        for model in self.settings.sources:
            if engine_class(model, self.settings.allowed_packages) is None:
                self.say(f"{model.name}: {_why_no_engine(model)}; /v1/preprocess only")
                continue
            own = {**env, "FOREBAY_MODEL": str(model)}
            parts.append(Part(f"scheduler:{model.name}", [*_FOREBAY, "scheduler"], own))
        return parts

    def flower_part(self) -> Part:
        argv = [*_FOREBAY, "flower", "--port", str(self.flower_port)]
        return Part("flower", argv, self.environment, is_ready=lambda: listens(self.flower_port or 0))

    def api_part(self) -> Part:
        fd = self.listening.fileno()
        allowed = self.settings.allowed_packages
        has_engine = any(engine_class(model, allowed) is not None for model in self.settings.sources)
        env = {**self.environment, "FOREBAY_LISTEN_FD": str(fd)}
        if not has_engine:
            env["FOREBAY_READY_FOR"] = "preprocess"
        return Part("api", [*_FOREBAY, "api"], env, pass_fds=(fd,))


@contextmanager
def running(
    settings: UpSettings, say: Callable[[str], None], extra_parts: Callable[[Run], list[Part]] = lambda _: []
) -> Iterator[tuple[Supervisor, Urls]]:
    """A whole deployment on this machine, ready, for the time of the block; afterwards nothing of it is left.

    Args:
        settings: what to run.
        say: prints one line for the operator.
        extra_parts: more processes to run beside the workers, such as an engine of the caller's own.

    Raises:
        ConfigurationError: something is missing; nothing was started.
        PartFailedError: a part could not be started.
        EndedError: a signal came before all of it was ready.
    """
    check_platform()
    check_models(settings)
    adopt_orphans()
    folders = Folders.make()
    try:
        with _listening(settings) as listening:
            run = _prepare(settings, folders, listening, say)
            supervisor = Supervisor(folders.disk, say, shared_folders=[folders.shm])
            with supervisor.catching_signals():
                yield from _supervised(run, supervisor, extra_parts(run))
    finally:
        folders.remove()


def _prepare(settings: UpSettings, folders: Folders, listening: socket.socket, say: Callable[[str], None]) -> Run:
    embedded = None if settings.redis_url else redis_server.prepare(folders.disk, settings.data_dir)
    if settings.redis_url and not answers(settings.redis_url):
        raise ConfigurationError(
            f"no Redis answers at {without_password(settings.redis_url)} (given by --redis or REDIS_URL)"
        )
    flower_port = redis_server.free_port() if settings.flower else None
    secret = read_secret(settings.data_dir)
    placement = Placement(settings.huge_pages, settings.numa_node)
    Pool.create(folders.shm / "pool", settings.pool_bytes, installation_of(secret.encode()), placement)
    return Run(settings, folders, say, embedded, listening, flower_port, secret)


def _supervised(run: Run, supervisor: Supervisor, extra: list[Part]) -> Iterator[tuple[Supervisor, Urls]]:
    try:
        if run.embedded:
            supervisor.start([run.redis_part()])
        flower = [run.flower_part()] if run.flower_port else []
        # The API is last in order, so it stops first: what it has accepted still finds workers and engines.
        supervisor.start([*run.worker_parts(), *extra, *flower, run.api_part()])
        yield supervisor, run.urls
        run.listening.close()  # from here on a new connection is refused, not left waiting
        _drain(run, supervisor)
    finally:
        supervisor.end()
        if run.deployment == run.folders.name:
            forget(run.redis_url, f"{run.deployment}:")


def _drain(run: Run, supervisor: Supervisor) -> None:
    try:
        left = supervisor.drain(lambda: live_requests(run.redis_url, Keys(f"{run.deployment}:")))
    except EndedError:
        run.say("ended without draining")
        return
    if left:
        kept = "they go on with the next start" if run.settings.data_dir else "they are gone"
        run.say(f"{left} accepted requests were not finished; {kept}")


@contextmanager
def _listening(settings: UpSettings) -> Iterator[socket.socket]:
    """The API's socket, held by the launcher so that a restarted API refuses no connection."""
    try:
        listening = socket.create_server((settings.host, settings.port), backlog=2048)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
    with listening:
        host = str(listening.getsockname()[0])
        check_exposure(host, has_keys=settings.api_keys is not None, is_allowed=settings.allow_open)
        os.set_inheritable(listening.fileno(), True)
        yield listening


def _why_no_engine(model: ModelSource) -> str:
    if {model.name, model.processor} & set(names(ENGINES)):
        return f"no engine without a model folder ({model.name}=DIR)"
    return "no installed package has an engine for it"


def check_platform() -> None:
    """Linux only: tmpfs, file locks that die with their holder, CPU affinity."""
    if sys.platform != "linux":
        raise ConfigurationError(f"forebay up needs Linux (tmpfs, fcntl locks, CPU affinity), not {sys.platform}")


def check_models(settings: UpSettings) -> None:
    """Refuse a model that no installed package knows, or a dtype for none of them, before anything is started."""
    known = names(PROCESSORS)
    for model in settings.sources:
        name = model.processor or model.name
        if name not in known and ":" not in name:
            raise ConfigurationError(
                f"no installed package has a processor for {name!r}; installed: {', '.join(known)} "
                f"(engines: {', '.join(names(ENGINES))})"
            )
    if not settings.models:
        raise ConfigurationError(f"--model is not given; installed: {', '.join(known)}")
    settings.feature_dtypes.check(settings.models)


def read_secret(data_dir: Path | None) -> str:
    """What signs the tasks: the environment's, else the data folder's, else one for this run."""
    if "FOREBAY_SECRET" in os.environ:
        return os.environ["FOREBAY_SECRET"]
    fresh = secrets.token_hex(32)
    if data_dir is None:
        return fresh
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / "secret"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(fresh)
    return path.read_text()


def live_requests(url: str, keys: Keys) -> int:
    """How many requests are between accepted and ended; none where nobody can tell any more."""
    client = connect(url, "drain")
    try:
        with redis_failures():
            return int(client.zcard(keys.due))
    except Failed:
        return 0
    finally:
        client.close()


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def forget(url: str, prefix: str) -> None:
    """Remove a run's keys from a Redis that outlives it."""
    client = connect(url, "forget")
    try:
        with redis_failures():
            for key in client.scan_iter(f"{prefix}*", count=1000):
                client.delete(key)
    except Failed:
        return  # a Redis that has gone took the keys along, or keeps them where we cannot reach
    finally:
        client.close()
