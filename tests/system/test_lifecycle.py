"""Starting, dying and stopping: what is killed comes back, what is stopped leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from forebay.client import Client, RequestFailedError, UnreachableError, encode
from launch import folders
from tests.support import media
from tests.support.deployment import Deployment, running
from tests.support.long import only_long
from tests.system.test_main_job import FOX, QUESTION

pytestmark = pytest.mark.system

SMALL = ["--model", "efficientnet-lite0", "--workers", "1", "--no-flower"]
FEATURES_ONLY = ["--model", "qwen2-vl", "--workers", "1", "--no-flower"]


def nothing_left(deployment: Deployment, pids: set[int]) -> bool:
    """No process, no folder, no socket of the run."""
    alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    folders = [str(folder) for folder in deployment.folders if folder.exists()]
    assert (alive, folders) == ([], [])
    return True


def test_a_killed_child_is_replaced_and_its_request_finishes(deployment: Deployment, api: Client):
    """The task outlives the child that held it."""
    children = set(deployment.pids_of("worker")[1:])
    body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.coffee())}
    stopped = sorted(children)
    for child in stopped:
        os.kill(child, signal.SIGSTOP)  # whichever gets the task cannot finish it
    rid = httpx.post(f"{deployment.url}/v1/requests", json=body).json()["rid"]
    time.sleep(0.3)

    for child in stopped:
        os.kill(child, signal.SIGKILL)

    give_up_at = time.monotonic() + 60
    while api.status(rid).state != "done":
        assert time.monotonic() < give_up_at, api.status(rid)
        time.sleep(0.1)
    assert api.status(rid).answer.text == "espresso"
    assert not children & set(deployment.pids_of("worker"))


@only_long  # chaos kills schedulers too
def test_a_killed_scheduler_comes_back_and_its_requests_finish(deployment: Deployment, api: Client):
    """Its lease lapses, its tickets are parked again, and its successor admits them."""
    (victim,) = [
        pid
        for pid in deployment.pids_of("scheduler")
        if b"FOREBAY_MODEL=whisper-tiny-en\0" in Path(f"/proc/{pid}/environ").read_bytes()
    ]
    body = {"model": "whisper-tiny-en", "text": "x", "audio_data": encode(media.fox_recording())}
    rids = [httpx.post(f"{deployment.url}/v1/requests", json=body).json()["rid"] for _ in range(3)]
    while not any(api.status(rid).state == "admitted" for rid in rids):
        time.sleep(0.01)

    os.kill(victim, signal.SIGKILL)

    give_up_at = time.monotonic() + 60
    while any(api.status(rid).state != "done" for rid in rids):
        assert time.monotonic() < give_up_at, [api.status(rid) for rid in rids]
        time.sleep(0.2)
    assert [api.status(rid).answer.text for rid in rids] == [FOX] * 3
    assert deployment.find(r"(scheduler:whisper-tiny-en ended with -9; starting it again)")


def test_a_killed_api_comes_back_on_the_same_port(deployment: Deployment, api: Client):
    """The launcher holds the socket, so a new connection waits instead of being refused."""
    (victim,) = deployment.pids_of("api")

    os.kill(victim, signal.SIGKILL)

    with Client(deployment.url) as fresh:
        assert fresh.generate(model="efficientnet-lite0", text="x", images=[media.coffee()]).text == "espresso"
    assert deployment.pids_of("api") != [victim]


def test_a_killed_worker_comes_back_and_nothing_is_lost(deployment: Deployment, api: Client):
    """Parent and children die together in the middle of work; every request still gets its one answer."""
    body = {"model": "qwen2-vl", "text": QUESTION, "image_data": encode(media.coffee())}
    body["sampling_params"] = {"max_new_tokens": 1}
    rids = [httpx.post(f"{deployment.url}/v1/requests", json=body).json()["rid"] for _ in range(12)]

    os.kill(deployment.pids_of("worker")[0], signal.SIGKILL)

    give_up_at = time.monotonic() + 120
    while any(api.status(rid).state != "done" for rid in rids):
        assert time.monotonic() < give_up_at, [api.status(rid) for rid in rids]
        time.sleep(0.3)


def test_a_client_that_leaves_cancels_its_request(deployment: Deployment, api: Client):
    """Nobody computes an answer that nobody will read."""
    body = {"model": "whisper-tiny-en", "text": "x", "audio_data": encode(media.fox_recording()), "rid": "left"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{deployment.url}/generate", json=body, timeout=0.2)

    give_up_at = time.monotonic() + 10
    while api.status("left").state != "cancelled":
        assert time.monotonic() < give_up_at, api.status("left")
        time.sleep(0.05)


def test_ctrl_c_in_the_middle_of_twenty_answers_them_and_leaves_nothing():
    """The first signal drains: what was accepted is answered, then everything ends."""
    with running(FEATURES_ONLY) as deployment:
        url, pids = deployment.url, deployment.pids()
        started = threading.Semaphore(0)

        def ask(number: int) -> str:
            with Client(url) as client:
                started.release()
                try:
                    client.preprocess(model="qwen2-vl", text=QUESTION, images=[media.coffee()], rid=f"r{number}")
                except RequestFailedError as error:
                    return error.code
                except UnreachableError:
                    return "refused"
                return "answered"

        with ThreadPoolExecutor(20) as threads:
            asked = [threads.submit(ask, number) for number in range(20)]
            for _ in range(20):
                started.acquire()
            time.sleep(0.15)
            deployment.interrupt()
            outcomes = Counter(one.result() for one in asked)
        status = deployment.wait()

    assert status == 0
    assert outcomes["answered"] >= 1
    assert set(outcomes) <= {"answered", "refused"}, outcomes
    assert nothing_left(deployment, pids)


def test_a_drain_waits_for_what_was_accepted_and_refuses_what_comes(tmp_path):
    """202 is a promise: the first signal ends the run only when every accepted request has its end."""
    with running([*SMALL, "--data-dir", str(tmp_path / "data")]) as deployment:
        url = deployment.url
        body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.coffee())}
        answers = [httpx.post(f"{url}/v1/requests", json=body) for _ in range(25)]
        deployment.interrupt()
        deployment.wait_for(r"(draining)", 5)
        time.sleep(1.0)
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{url}/v1/requests", json=body, timeout=5)
        status = deployment.wait()

    assert [answer.status_code for answer in answers] == [202] * 25
    assert status == 0
    assert "were not finished" not in deployment.output


def test_a_processor_that_cannot_start_says_why(tmp_path):
    """The reason of a child reaches the terminal of the run."""
    (tmp_path / "config.json").write_text("{}")
    ended = up("--model", f"qwen2.5-vl={tmp_path}", "--no-flower", "--port", "0")

    assert ended.returncode == 1
    assert "key 'model_type' is missing" in ended.stdout


def test_a_deadline_is_kept(deployment: Deployment):
    """504 comes with the deadline, not with the next look of somebody."""
    body = {"model": "whisper-tiny-en", "text": "x", "audio_data": encode(media.fox_recording()), "timeout_s": 0.05}
    began = time.monotonic()

    response = httpx.post(f"{deployment.url}/generate", json=body, timeout=30)

    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert time.monotonic() - began < 4


def test_a_second_signal_ends_at_once_and_leaves_nothing():
    """Whoever cannot wait need not."""
    with running(SMALL) as deployment:
        pids = deployment.pids()
        body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.coffee())}
        for child in deployment.pids_of("worker")[1:]:
            os.kill(child, signal.SIGSTOP)  # a drain would wait for it
        httpx.post(f"{deployment.url}/v1/requests", json=body)
        deployment.interrupt()
        time.sleep(1.0)
        began = time.monotonic()
        deployment.interrupt()
        deployment.wait()

    assert time.monotonic() - began < 10
    assert nothing_left(deployment, pids)


def test_a_killed_launcher_takes_its_parts_along_and_the_next_run_cleans_up():
    """SIGKILL leaves folders, and no process; the next run removes the folders."""
    with running(FEATURES_ONLY) as deployment:
        pids, folders = deployment.pids(), deployment.folders
        deployment.kill()
    give_up_at = time.monotonic() + 30
    while alive := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < give_up_at, alive
        time.sleep(0.1)
    assert any(folder.exists() for folder in folders)

    with running(FEATURES_ONLY):
        assert not any(folder.exists() for folder in folders)


def test_requests_survive_a_restart_with_a_data_folder(tmp_path):
    """What was accepted is in Redis' append-only file, and is done after the next start."""
    arguments = [*SMALL, "--data-dir", str(tmp_path / "data")]
    with running(arguments) as deployment:
        for pid in deployment.pids_of("worker"):
            os.kill(pid, signal.SIGSTOP)
        body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.coffee()), "rid": "kept"}
        assert httpx.post(f"{deployment.url}/v1/requests", json=body).status_code == 202
        time.sleep(1.2)  # appendfsync everysec
        deployment.kill()

    with running(arguments) as deployment, Client(deployment.url) as client:
        give_up_at = time.monotonic() + 60
        while client.status("kept").state != "done":
            assert time.monotonic() < give_up_at, client.status("kept")
            time.sleep(0.2)
        assert client.status("kept").answer.text == "espresso"


def ended_runs() -> set[str]:
    """Folders on tmpfs of runs that go on no more: those of living ones, of other tests, come and go."""
    return {path.name for path in folders.SHM.glob("forebay-up-*") if folders._is_abandoned(path)}


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", "up", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nobody"], "no installed package has a processor for 'nobody'"),
        (["--model", "qwen2-vl=/nowhere"], "/nowhere is not a folder"),
        (["--model", "qwen2-vl", "--pool-bytes", "9000TiB"], "the feature pool needs"),
        (["--model", "qwen2-vl", "--redis", "redis://127.0.0.1:1/0"], "no Redis answers at redis://127.0.0.1:1/0"),
        (["--model", "qwen2-vl", "--workers", "0", "--port", "x"], "FOREBAY_WORKERS='0'"),
        (["--model", "qwen2-vl", "--cores", "77"], "cores [77]"),
        ([], "--model is not given; installed: clip, efficientnet-lite0"),
    ],
)
def test_what_cannot_start_says_why_and_exits_non_zero(arguments, said):
    """One line that names the setting and its value; nothing stays behind."""
    before = ended_runs()

    ended = up(*arguments, "--no-flower")

    assert ended.returncode != 0
    assert said in " ".join((ended.stderr + ended.stdout).split())
    assert ended_runs() <= before


def test_a_folder_that_lacks_a_file_is_named(tmp_path):
    """The worker's own words reach the operator who started the run."""
    ended = up("--model", f"qwen2-vl={tmp_path}", "--no-flower", "--port", "0")

    assert ended.returncode == 1
    assert "config.json is missing" in ended.stdout + ended.stderr


def test_a_taken_port_is_named():
    """Said before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = up("--model", "qwen2-vl", "--no-flower", "--port", str(port))

    assert ended.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr
