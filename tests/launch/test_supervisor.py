"""Watching parts: start and wait, restart what dies, drain in order, end everything. With real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from launch import supervisor as module
from launch.part import Part, Process
from launch.supervisor import EndedError, PartFailedError, Supervisor

READY = """
import os, socket, sys, time
def tell(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
"""


def python(name, program, **more):
    """A part that runs a few lines of Python."""
    return Part(name, [sys.executable, "-S", "-c", READY + program], **more)


def sleeper(name="sleeper", **more):
    return python(name, 'tell("READY=1"); time.sleep(60)', **more)


@pytest.fixture
def said():
    return []


@pytest.fixture
def supervisor(tmp_path, said, monkeypatch):
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0.005)
    supervisor = Supervisor(tmp_path, said.append, ready_within_s=10, drain_within_s=5)
    yield supervisor
    supervisor.end()


def is_running(pid):
    """A zombie is as good as gone."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_until(condition, within_s=5):
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come true"
        time.sleep(0.005)


def test_parts_are_ready_when_they_say_so(supervisor, tmp_path):
    """Starting waits for all of them, by their own word or by being asked."""
    flag = tmp_path / "flag"
    asked = python("asked", f'open({str(flag)!r}, "w"); time.sleep(60)', is_ready=flag.exists)

    supervisor.start([sleeper(), asked])

    assert flag.exists()
    assert set(supervisor.pids) == {"sleeper", "asked"}


def test_a_part_that_ends_while_starting_is_named_with_what_it_said(supervisor):
    """Its last status is the reason."""
    part = python("broken", 'tell("STATUS=no folder"); sys.exit(3)')

    with pytest.raises(PartFailedError, match=r"^broken ended with 3 while starting: no folder$"):
        supervisor.start([part])


def test_a_part_that_never_gets_ready_is_named(supervisor):
    """With the time that it had."""
    supervisor.ready_within_s = 0.1

    with pytest.raises(PartFailedError, match="not ready after 0 s: silent"):
        supervisor.start([python("silent", "time.sleep(60)"), sleeper()])


def test_a_signal_while_starting_ends_the_start(supervisor):
    """The operator changed their mind."""
    supervisor.signals = 1

    with pytest.raises(EndedError):
        supervisor.start([python("silent", "time.sleep(60)")])


def test_a_part_that_dies_is_started_again(supervisor, said):
    """With its exit status told, and a pause that grows."""
    supervisor.start([sleeper()])
    supervisor._places[0].pause_s = 0.01
    first = supervisor.pids["sleeper"]
    watching = threading.Thread(target=supervisor.watch)
    watching.start()

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: supervisor.pids.get("sleeper") not in (None, first))
    second = supervisor.pids["sleeper"]
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: supervisor.pids.get("sleeper") not in (None, first, second))
    supervisor.signals = 1
    watching.join(5)

    assert [line.partition(";")[0] for line in said] == ["sleeper ended with -9"] * 2
    pauses = [float(line.split(" in ")[1].split()[0]) for line in said]
    assert pauses[1] == 2 * pauses[0]


def test_what_a_dead_part_had_started_does_not_outlive_it(supervisor, tmp_path):
    """A worker's children go with the worker."""
    note = tmp_path / "child"
    program = f"""
import subprocess
child = subprocess.Popen(["sleep", "60"])
open({str(note)!r}, "w").write(str(child.pid))
tell("READY=1")
time.sleep(60)
"""
    supervisor.start([python("parent", program)])
    child = int(note.read_text())
    assert is_running(child)

    supervisor.end()

    wait_until(lambda: not is_running(child))


def test_parts_drain_in_the_reverse_order_of_their_start(supervisor, tmp_path):
    """What accepts requests stops first; what it needs, last."""
    log = tmp_path / "log"

    def draining(name):
        program = f"""
import signal
def on_term(*_):
    open({str(log)!r}, "a").write({name!r} + " ")
    sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
tell("READY=1")
time.sleep(60)
"""
        return python(name, program)

    supervisor.start([draining("redis")])
    supervisor.start([draining("worker")])
    supervisor.start([draining("api")])

    supervisor.drain()

    assert log.read_text().split() == ["api", "worker", "redis"]


def test_a_part_that_does_not_drain_is_ended(supervisor, said):
    """After the time that it had."""
    supervisor.drain_within_s = 0.1
    program = 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); tell("READY=1"); time.sleep(60)'
    supervisor.start([python("stubborn", program)])
    pid = supervisor.pids["stubborn"]

    supervisor.drain()

    assert said == ["stubborn did not drain within 0 s; ending it"]
    wait_until(lambda: not is_running(pid))


def test_a_second_signal_ends_the_drain(supervisor):
    """Whoever presses twice does not want to wait."""
    program = 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); tell("READY=1"); time.sleep(60)'
    supervisor.start([python("stubborn", program)])
    supervisor.signals = 2

    with pytest.raises(EndedError):
        supervisor.drain()


def test_signals_are_counted_and_the_handlers_come_back(supervisor):
    """The first drains, the second ends; a test after this one is interrupted as before."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    with supervisor.catching_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    assert supervisor.signals == 2
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_ending_leaves_no_process_and_no_socket(supervisor, tmp_path):
    """Twice is once."""
    supervisor.start([sleeper("a"), sleeper("b:c")])
    pids = list(supervisor.pids.values())

    supervisor.end()
    supervisor.end()

    assert not any(map(is_running, pids))
    assert list(tmp_path.iterdir()) == []
    assert supervisor.pids == {}


def test_a_part_is_told_what_it_needs(tmp_path):
    """Its environment on top of ours, its sockets passed on, a session of its own."""
    read, write = os.pipe()
    program = f'os.write({write}, (os.environ["GREETING"] + str(os.getsid(0) == os.getpid())).encode())'
    process = Process(python("told", program, env={"GREETING": "hello "}, pass_fds=(write,)), tmp_path)

    assert os.read(read, 100) == b"hello True"
    process.end()
    os.close(read)
    os.close(write)


def test_a_part_dies_with_its_launcher(tmp_path):
    """Also when the launcher is killed and cannot say so."""
    program = f"""
import sys, time
from pathlib import Path
from launch.part import Part, Process
process = Process(Part("p", ["sleep", "60"]), Path({str(tmp_path)!r}))
print(process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as launcher:
        part = int(launcher.stdout.readline())
        assert is_running(part)

        launcher.kill()

        wait_until(lambda: not is_running(part))
