"""Configuration: read once, refused as a whole, never shown where it is secret."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from api.settings import ApiSettings
from forebay import ConfigurationError, DType, ModelSource
from forebay.settings import (
    NodeSettings,
    SharedSettings,
    load,
    read_cores,
    read_flag,
    read_level,
    read_models,
    read_name,
    read_size,
    setting,
    whole_number,
)
from launch.settings import UpSettings
from scheduler.settings import SchedulerSettings
from workers.settings import WorkerSettings

SECRET = "0123456789abcdef"
EVERY = [ApiSettings, NodeSettings, SchedulerSettings, SharedSettings, UpSettings, WorkerSettings]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """Nothing of the machine's own."""
    for settings in EVERY:
        for one in fields(settings):
            monkeypatch.delenv(one.metadata["variable"], raising=False)
    monkeypatch.setenv("FOREBAY_SECRET", SECRET)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("512MiB", 512 << 20),
        ("512MB", 512 << 20),
        ("1g", 1 << 30),
        ("1.5K", 1536),
        (" 2 TiB ", 2 << 40),
        ("7B", 7),
        ("0", 0),
    ],
)
def test_a_size_is_read_in_powers_of_1024(text, size):
    """Whichever spelling an operator is used to."""
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e3", "1 Mibibyte", "1,5K", "0x10"])
def test_what_is_no_size_is_refused(text):
    """Rather than guessed."""
    with pytest.raises(ValueError, match="a size such as 512MiB was expected"):
        read_size(text)


@pytest.mark.parametrize(("text", "cores"), [("0-3,8", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), (" 1 , 2-2 ", (1, 2))])
def test_cores_are_numbers_and_ranges(text, cores):
    """Both ends of a range belong to it."""
    assert read_cores(text) == cores


@pytest.mark.parametrize("text", ["3-1", "a", "-1", "1-2-3", "0-2,1", "1.5"])
def test_what_names_no_cores_is_refused(text):
    """A range that is upside down must not mean 'unpinned'."""
    with pytest.raises(ValueError):  # noqa: PT011 - the reader's own words are int's for most of these
        read_cores(text)


@pytest.mark.parametrize(("text", "flag"), [("1", True), ("Yes", True), ("ON", True), ("0", False), ("false", False)])
def test_a_flag_is_read_in_the_usual_spellings(text, flag):
    """In any case."""
    assert read_flag(text) is flag


@pytest.mark.parametrize("text", ["", "2", "maybe"])
def test_what_is_no_flag_is_refused(text):
    """An empty variable is not 'off'."""
    with pytest.raises(ValueError, match="1 or 0 was expected"):
        read_flag(text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", ".a", "-a", "a" * 64, "é"])
def test_a_name_fits_into_keys_and_paths(text):
    """Neither a separator nor a hidden file."""
    with pytest.raises(ValueError, match="letters, digits"):
        read_name(text)


def test_the_longest_name_is_taken():
    """The limit itself is allowed."""
    assert read_name("a" * 63) == "a" * 63
    assert read_name("node-1.rack_2") == "node-1.rack_2"


def test_a_level_of_the_log_is_one_that_exists():
    """A typo fails at the start like every other setting, not later in the logging library."""
    assert read_level("debug") == "DEBUG"
    with pytest.raises(ValueError, match="one of DEBUG, INFO, WARNING, ERROR, CRITICAL was expected"):
        read_level("loud")


def test_models_are_separated_by_commas(tmp_path):
    """With a folder or without."""
    assert read_models(f"a, b={tmp_path},,") == (ModelSource("a"), ModelSource("b", tmp_path))


def test_settings_have_defaults_but_for_what_only_the_operator_knows():
    """The secret is all that a first start needs."""
    settings = load(SharedSettings)

    assert settings.secret == SECRET.encode()
    assert settings.redis_url == "redis://127.0.0.1:6379/0"
    assert settings.prefix == "forebay:"


def test_what_must_be_set_is_named():
    """Both of them at once."""
    with pytest.raises(ConfigurationError) as caught:
        load(SchedulerSettings, {"FOREBAY_SECRET": None})
    assert str(caught.value) == "FOREBAY_MODEL is not set (option --model)"


def test_all_bad_values_are_reported_together(monkeypatch):
    """An operator mends them in one go; each with its variable, its value and what was expected."""
    monkeypatch.setenv("FOREBAY_DEPLOYMENT", "a b")
    monkeypatch.setenv("FOREBAY_POOL_BYTES", "many")
    monkeypatch.setenv("FOREBAY_WORKERS", "0")
    monkeypatch.setenv("FOREBAY_CORES", "3-1")
    monkeypatch.setenv("FOREBAY_EVENTS", "perhaps")
    monkeypatch.setenv("FOREBAY_LOG_LEVEL", "loud")

    with pytest.raises(ConfigurationError) as caught:
        load(WorkerSettings)

    assert str(caught.value).split("; ", 3)[0].startswith("FOREBAY_DEPLOYMENT='a b': ")
    for told in [
        "FOREBAY_POOL_BYTES='many': a size such as 512MiB was expected",
        "FOREBAY_WORKERS='0': a whole number of at least 1 was expected",
        "FOREBAY_CORES='3-1': 3-1 names no core",
        "FOREBAY_EVENTS='perhaps': 1 or 0 was expected",
        "FOREBAY_LOG_LEVEL='loud': one of DEBUG",
        "FOREBAY_MODELS is not set",
    ]:
        assert told in str(caught.value)


def test_a_secret_is_not_shown(monkeypatch):
    """Not even a bad one: logs are read by more people than secrets."""
    monkeypatch.setenv("FOREBAY_SECRET", "hunter2")

    with pytest.raises(ConfigurationError) as caught:
        load(SharedSettings)

    assert str(caught.value) == "FOREBAY_SECRET=(not shown): at least 16 characters were expected"


def test_the_command_line_wins_over_the_environment(monkeypatch):
    """Where it says nothing, the environment speaks."""
    monkeypatch.setenv("REDIS_URL", "redis://a")
    monkeypatch.setenv("FOREBAY_DEPLOYMENT", "blue")

    settings = load(SharedSettings, {"REDIS_URL": "redis://b", "FOREBAY_DEPLOYMENT": None})

    assert (settings.redis_url, settings.prefix) == ("redis://b", "blue:")


def test_a_model_whose_folder_is_missing_is_reported_with_the_rest(monkeypatch):
    """Errors of our own kind join the list as they are."""
    monkeypatch.setenv("FOREBAY_MODELS", "a=/no/such/folder")
    monkeypatch.setenv("FOREBAY_WORKERS", "x")

    with pytest.raises(ConfigurationError, match=r"/no/such/folder is not a folder; FOREBAY_WORKERS='x': "):
        load(WorkerSettings)


def test_a_worker_gives_each_model_the_dtype_of_its_features(monkeypatch, tmp_path):
    """The children load these; the models themselves stay as they were named."""
    monkeypatch.setenv("FOREBAY_MODELS", f"a={tmp_path},b")
    monkeypatch.setenv("FOREBAY_FEATURE_DTYPE", "bfloat16,a=uint8")

    settings = load(WorkerSettings)

    assert settings.sources == (ModelSource("a", tmp_path, DType.UINT8), ModelSource("b", None, DType.BFLOAT16))
    assert settings.models == (ModelSource("a", tmp_path), ModelSource("b"))
    assert load(WorkerSettings, {"FOREBAY_FEATURE_DTYPE": ""}).sources == settings.models


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a=int64",
            "FOREBAY_FEATURE_DTYPE='a=int64': a cannot have 'int64'; one of float32, bfloat16, uint8 was expected",
        ),
        ("b=uint8", "feature dtype b=uint8: not among the models (a)"),
    ],
)
def test_a_feature_dtype_that_cannot_be_is_refused_with_its_model(text, told):
    """When the settings are read, before a child is started."""
    with pytest.raises(ConfigurationError) as caught:
        load(WorkerSettings, {"FOREBAY_MODELS": "a", "FOREBAY_FEATURE_DTYPE": text})

    assert str(caught.value) == told


def test_a_nodes_folder_is_on_tmpfs_unless_it_is_named(tmp_path):
    """Named after deployment and node, so that two never share one."""
    own = load(NodeSettings, {"FOREBAY_NODE": "n1", "FOREBAY_DEPLOYMENT": "blue"})
    named = load(NodeSettings, {"FOREBAY_RUN_DIR": str(tmp_path)})

    assert own.pool_path == Path("/dev/shm/forebay-blue-n1/pool")
    assert named.pool_path == tmp_path / "pool"


def test_settings_cannot_be_changed_after_they_were_read():
    """Whoever receives them may trust them."""
    settings = load(SharedSettings)

    with pytest.raises(AttributeError):
        settings.media = "spool:/tmp"


def test_a_default_may_be_a_fact_of_the_machine():
    """A callable is asked when the settings are made, not when the module is imported."""
    asked = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Own:
        number: int = setting("FOREBAY_TEST_NUMBER", whole_number(0), lambda: asked.append(1) or 7)

    assert asked == []
    assert load(Own).number == 7
    assert load(Own, {"FOREBAY_TEST_NUMBER": "0"}).number == 0
    assert asked == [1]


def test_children_are_pinned_only_where_it_pays(monkeypatch):
    """On fewer than four cores the kernel does better; named cores are taken as they are."""
    monkeypatch.setenv("FOREBAY_MODELS", "a")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert (load(WorkerSettings).partition, load(WorkerSettings).workers) == ((), 3)
    assert load(WorkerSettings, {"FOREBAY_CORES": "1"}).partition == (1,)

    monkeypatch.setattr("os.sched_getaffinity", lambda _: {4, 5, 6, 7})
    assert (load(WorkerSettings).partition, load(WorkerSettings).workers) == ((4, 5, 6, 7), 4)
