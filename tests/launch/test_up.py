"""The composition of the one-machine run: what is refused before anything starts, and what each part is told."""

from __future__ import annotations

import ctypes
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forebay import ConfigurationError, DType, ModelSource
from forebay.feature_dtypes import FeatureDTypes
from forebay.settings import load
from launch import command, folders, up
from launch.folders import Folders
from launch.part import _PR_SET_CHILD_SUBREAPER, Part
from launch.redis_server import EmbeddedRedis
from launch.settings import UpSettings
from launch.supervisor import EndedError, PartFailedError
from launch.up import Run, answers, check_models, forget, listens, read_secret, running

MODELS = (ModelSource("qwen2-vl"), ModelSource("efficientnet-lite0"))


def settings(**given: Any) -> UpSettings:
    return UpSettings(**{"models": MODELS, "flower": False, **given})


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment that the tests run in."""
    for name in ("FOREBAY_SECRET", "REDIS_URL", "FOREBAY_MODELS", "FOREBAY_LOG_LEVEL", "FOREBAY_DEPLOYMENT"):
        monkeypatch.delenv(name, raising=False)


# Models.


def test_installed_models_are_known():
    """Ours and the examples'."""
    check_models(settings())


def test_an_unknown_model_is_refused_with_those_that_are_installed():
    """Before Redis, pool or any process."""
    with pytest.raises(
        ConfigurationError, match=r"has a processor for 'nobody'; installed: .*qwen2-vl.*engines: "
    ) as caught:
        check_models(settings(models=(*MODELS, ModelSource("nobody"))))

    assert "efficientnet-lite0" in str(caught.value)


def test_a_dtype_for_a_model_that_is_not_run_is_refused():
    """A typo is seen before anything is started."""
    check_models(settings(feature_dtypes=FeatureDTypes.parse("qwen2-vl=uint8")))

    with pytest.raises(ConfigurationError, match=r"dtype qwen3-vl=uint8: not among the models \(qwen2-vl, effi"):
        check_models(settings(feature_dtypes=FeatureDTypes.parse("qwen3-vl=uint8")))


def test_a_run_without_a_model_is_refused():
    """The option is named."""
    with pytest.raises(ConfigurationError, match=r"--model is not given; installed: .*whisper-tiny-en"):
        check_models(settings(models=()))


# The secret.


def test_a_run_has_a_secret_of_its_own(clean):
    """Another each time, long enough for its parts."""
    first, second = read_secret(None), read_secret(None)

    assert first != second
    assert len(first) == 64


def test_a_data_folder_keeps_the_secret_for_the_next_run(clean, tmp_path):
    """What was queued before can still be authenticated; nobody else can read it."""
    folder = tmp_path / "kept" / "data"

    first = read_secret(folder)

    assert read_secret(folder) == first
    assert (folder / "secret").read_text() == first
    assert (folder / "secret").stat().st_mode & 0o777 == 0o600


def test_the_environment_wins(clean, monkeypatch, tmp_path):
    """An operator's secret is theirs to keep; it is not written down."""
    monkeypatch.setenv("FOREBAY_SECRET", "s" * 32)

    assert read_secret(tmp_path) == "s" * 32
    assert list(tmp_path.iterdir()) == []


# Settings.


def test_settings_have_defaults_for_everything_but_the_models(clean, monkeypatch):
    """And the models must be said, with what there is to say."""
    with pytest.raises(ConfigurationError, match=r"--model is not given; installed: .*qwen2-vl"):
        check_models(load(UpSettings))

    assert load(UpSettings, {"FOREBAY_MODELS": "a,b"}) == UpSettings(models=(ModelSource("a"), ModelSource("b")))


def test_settings_are_read_from_text(clean, tmp_path):
    """Every one of them."""
    text = {
        "FOREBAY_MODELS": f"a={tmp_path}",
        "REDIS_URL": "redis://r",
        "FOREBAY_DEPLOYMENT": "prod",
        "FOREBAY_HOST": "0.0.0.0",
        "FOREBAY_PORT": "0",
        "FOREBAY_WORKERS": "3",
        "FOREBAY_CORES": "0-1,3",
        "FOREBAY_FEATURE_DTYPE": "a=uint8",
        "FOREBAY_POOL_BYTES": "20MiB",
        "FOREBAY_DATA_DIR": str(tmp_path),
        "FOREBAY_FLOWER": "no",
        "FOREBAY_LOG_LEVEL": "debug",
    }

    assert load(UpSettings, text) == UpSettings(
        models=(ModelSource("a", tmp_path),),
        redis_url="redis://r",
        deployment="prod",
        host="0.0.0.0",
        port=0,
        workers=3,
        cores=(0, 1, 3),
        feature_dtypes=FeatureDTypes(by_model={"a": DType.UINT8}),
        pool_bytes=20 << 20,
        data_dir=tmp_path,
        flower=False,
        log_level="DEBUG",
    )


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("FOREBAY_PORT", "-1"),
        ("FOREBAY_PORT", "65536"),
        ("FOREBAY_PORT", "http"),
        ("FOREBAY_WORKERS", "0"),
        ("FOREBAY_CORES", "3-1"),
        ("FOREBAY_FEATURE_DTYPE", "a=int64"),
        ("FOREBAY_POOL_BYTES", "much"),
        ("FOREBAY_FLOWER", "maybe"),
        ("FOREBAY_LOG_LEVEL", "loud"),
        ("FOREBAY_DEPLOYMENT", "a:b"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(clean, variable, text):
    """Before anything is started."""
    with pytest.raises(ConfigurationError, match=f"{variable}='{text}'"):
        load(UpSettings, {"FOREBAY_MODELS": "a", variable: text})


def test_the_option_for_dtypes_may_be_given_again(clean):
    """A general one and those of single models; a bad one is shown as all of them were read."""
    options = ["--model", "qwen2-vl", "--feature-dtype", "bfloat16", "--feature-dtype", "qwen2-vl=int64"]

    refused = CliRunner().invoke(command.up, options)

    assert refused.exit_code == 2
    assert "FOREBAY_FEATURE_DTYPE='bfloat16,qwen2-vl=int64': qwen2-vl cannot have 'int64'" in refused.output


# What the parts are told.


@pytest.fixture
def run(shm: Path, tmp_path: Path) -> Iterator[Run]:
    """A run with a Redis of its own; nothing of it is started."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        places = Folders("forebay-up-12345678", shm, tmp_path, -1)
        embedded = EmbeddedRedis(Path("/bin/redis"), tmp_path / "conf", "unix:///sock?db=0")
        yield Run(settings(), places, print, embedded, listening, None, "s" * 32)


def test_parts_find_one_another_through_their_environment(run, shm, tmp_path):
    """One secret, one Redis, one node, one folder of shared memory, one media folder."""
    assert run.environment == {
        "FOREBAY_SECRET": "s" * 32,
        "REDIS_URL": "unix:///sock?db=0",
        "FOREBAY_DEPLOYMENT": "forebay",
        "FOREBAY_NODE": "local",
        "FOREBAY_RUN_DIR": str(shm),
        "FOREBAY_POOL_BYTES": str(1 << 30),
        "FOREBAY_MEDIA": f"spool:{tmp_path}/media",
        "FOREBAY_MODELS": "qwen2-vl,efficientnet-lite0",
        "FOREBAY_FEATURE_DTYPE": "float32",
        "FOREBAY_EVENTS": "0",
        "FOREBAY_LOG_LEVEL": "WARNING",
        "TMPDIR": str(run.folders.disk),
    }


def test_parts_are_told_what_the_operator_chose(run, tmp_path):
    """Cores, workers, dtypes, events for Flower; media in the data folder, where they outlive the run."""
    run.settings = settings(workers=2, cores=(0, 2), data_dir=tmp_path / "data", models=(ModelSource("a", tmp_path),))
    run.settings = replace(run.settings, feature_dtypes=FeatureDTypes.parse("bfloat16,a=uint8"))
    run.flower_port = 5555

    told = run.environment

    assert (told["FOREBAY_WORKERS"], told["FOREBAY_CORES"], told["FOREBAY_EVENTS"]) == ("2", "0,2", "1")
    assert told["FOREBAY_MEDIA"] == f"spool:{tmp_path}/data/media"
    assert told["FOREBAY_MODELS"] == f"a={tmp_path}"
    assert told["FOREBAY_FEATURE_DTYPE"] == "bfloat16,a=uint8"
    assert run.urls.flower == "http://127.0.0.1:5555"


def test_on_a_redis_of_somebody_elses_a_run_has_a_name_of_its_own(run):
    """So that it meets nobody, and can take its keys with it; a named one finds its requests again."""
    run.embedded = None
    run.settings = settings(redis_url="redis://shared")
    assert (run.deployment, run.environment["FOREBAY_NODE"]) == ("forebay-up-12345678", "forebay-up-12345678")
    assert run.redis_url == "redis://shared"

    run.settings = settings(redis_url="redis://shared", deployment="prod")
    assert run.deployment == "prod"


def test_a_model_with_an_engine_gets_a_scheduler(run):
    """The others serve preprocessing, and the operator is told."""
    said: list[str] = []
    run.say = said.append

    parts = run.worker_parts()

    assert [part.name for part in parts] == ["worker", "scheduler:efficientnet-lite0"]
    assert parts[1].env["FOREBAY_MODEL"] == "efficientnet-lite0"
    assert said == ["qwen2-vl: no engine without a model folder (qwen2-vl=DIR); /v1/preprocess only"]


def test_the_api_is_handed_the_launchers_socket(run):
    """A restart refuses no connection; its address is the one that was picked."""
    part = run.api_part()
    fd = run.listening.fileno()

    assert (part.env["FOREBAY_LISTEN_FD"], tuple(part.pass_fds)) == (str(fd), (fd,))
    assert run.urls.api == f"http://127.0.0.1:{run.listening.getsockname()[1]}"


# A run.


@pytest.fixture
def places(shm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Where this run makes its folders; and this process is nobody's foster parent afterwards."""
    monkeypatch.setattr(folders, "SHM", shm)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield shm, tmp_path
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)


def no_parts(monkeypatch: pytest.MonkeyPatch, *parts: Part) -> None:
    """Instead of workers, schedulers and an API."""
    monkeypatch.setattr(Run, "worker_parts", lambda self: list(parts))
    monkeypatch.setattr(Run, "api_part", lambda self: Part("api", ["sleep", "60"], is_ready=lambda: True))


def small(**given: Any) -> UpSettings:
    return settings(port=0, pool_bytes=4096, models=MODELS[:1], **given)


def left(places: tuple[Path, Path]) -> list[Path]:
    return [path for place in places for path in place.iterdir()]


@pytest.mark.service
def test_a_run_stands_for_the_time_of_its_block(places, monkeypatch):
    """Redis and pool are there within; nothing of it is there afterwards."""
    no_parts(monkeypatch)

    with running(small(), print) as (supervisor, urls):
        assert list(supervisor.pids) == ["redis", "api"]
        assert (places[0] / supervisor.folder.name / "pool").stat().st_size > 4096
        assert urls.api.startswith("http://127.0.0.1:")
        pids = list(supervisor.pids.values())

    assert left(places) == []
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.service
def test_a_signal_while_a_run_starts_ends_it_and_leaves_nothing(places, monkeypatch):
    """Ctrl-C before it is ready: one sentence, no traceback."""

    def never() -> bool:
        signal.raise_signal(signal.SIGINT)
        return False

    no_parts(monkeypatch, Part("worker", ["sleep", "60"], is_ready=never))

    with pytest.raises(EndedError, match="ended by a signal"), running(small(), print):
        raise AssertionError("it was never ready")

    assert left(places) == []


@pytest.mark.service
def test_a_second_signal_while_a_run_drains_ends_it(places, monkeypatch):
    """The operator is told; nothing stays either."""
    stubborn = Part("worker", ["sh", "-c", "trap '' TERM; sleep 60"], is_ready=lambda: True)
    no_parts(monkeypatch, stubborn)
    said: list[str] = []

    with running(small(), said.append) as (supervisor, _):
        supervisor.signals = 2

    assert said == ["ended without draining"]
    assert left(places) == []


@pytest.mark.service
def test_a_part_that_cannot_start_ends_the_run_and_leaves_nothing(places, monkeypatch):
    """Its name and status reach the operator."""
    no_parts(monkeypatch, Part("worker", ["false"], is_ready=lambda: False))

    with pytest.raises(PartFailedError, match="worker ended with 1 while starting"), running(small(), print):
        raise AssertionError("it was never ready")

    assert left(places) == []


@pytest.mark.service
def test_a_run_on_a_redis_of_somebody_elses_takes_its_keys_with_it(places, monkeypatch, client, redis_url):
    """And no other's."""
    no_parts(monkeypatch)
    client.set("theirs", "kept")

    with running(small(redis_url=redis_url), print) as (supervisor, _):
        assert list(supervisor.pids) == ["api"]
        client.set(f"{supervisor.folder.name}:r:1", "ours")

    assert client.keys("*") == [b"theirs"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"redis_url": "redis://user:secret@127.0.0.1:1/0"}, "no Redis answers at redis://…@127.0.0.1:1/0"),
        ({"pool_bytes": 1 << 60}, "the feature pool needs"),
        ({"host": "256.1.1.1"}, "cannot listen on 256.1.1.1:0"),
        ({"models": (ModelSource("nobody"),)}, "no installed package has a processor for 'nobody'"),
    ],
)
def test_what_cannot_start_is_told_before_anything_is_started(places, given, said):
    """One sentence with the setting's value, without a password; nothing stays."""
    plain = {"port": 0, "pool_bytes": 4096, "models": MODELS[:1]}
    with (
        pytest.raises(ConfigurationError, match=said.replace("…", ".")) as caught,
        running(settings(**plain | given), print),
    ):
        raise AssertionError("it cannot start")

    assert "secret" not in str(caught.value)
    assert left(places) == []


def test_a_taken_port_is_named(places):
    """And whose it is, is for the operator to find out."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"cannot listen on 127.0.0.1:{port}: Address already in use"
        with pytest.raises(ConfigurationError, match=said), running(settings(port=port, pool_bytes=4096), print):
            raise AssertionError("it cannot start")

    assert left(places) == []


# Looking.


def test_whether_something_listens_is_asked_by_connecting():
    """On loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert listens(port)

    assert not listens(port)


@pytest.mark.service
def test_whether_a_redis_answers_is_asked_by_asking_it(redis_url):
    """Whatever else is at that address is none."""
    assert answers(redis_url)
    assert not answers("unix:///nowhere/redis.sock")
    assert not answers("redis://127.0.0.1:1/0")


@pytest.mark.service
def test_forgetting_removes_the_keys_of_one_run(client, redis_url):
    """However many; a Redis that has gone took them along."""
    client.mset({f"run:{number}": 1 for number in range(1100)} | {"runner": 1})

    forget(redis_url, "run:")
    forget("unix:///nowhere/redis.sock", "run:")

    assert client.keys("*") == [b"runner"]


def test_another_platform_is_refused_at_once(monkeypatch):
    """Linux is what it is made of."""
    monkeypatch.setattr(up.sys, "platform", "darwin")

    with pytest.raises(ConfigurationError, match=r"needs Linux .* not darwin"):
        up.check_platform()
