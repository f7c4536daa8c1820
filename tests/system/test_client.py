"""Both clients and ``forebay send``, through the whole tier and real models."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from forebay.client import Client, Model, RequestFailedError
from tests.support import media
from tests.support.clients import BOTH, either
from tests.support.deployment import Deployment

pytestmark = pytest.mark.system

PHOTOS, SPEECH, QWEN = "efficientnet-lite0", "whisper-tiny-en", "qwen2-vl"
FOX = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(params=BOTH)
def client(request: pytest.FixtureRequest, deployment: Deployment) -> Iterator[Any]:
    with either(request.param, deployment.url) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two photos, one that is none, and what is no photo by its name."""
    folder = tmp_path / "photos"
    folder.mkdir()
    shutil.copy(media.coffee(), folder / "a.png")
    (folder / "b.png").write_bytes(b"no picture")
    shutil.copy(media.coffee(), folder / "c.PNG")
    (folder / "notes.txt").write_text("not sent")
    return folder


def test_a_question_about_a_file_is_answered(client):
    """A conversation of one message: no placeholder is written by hand."""
    answer = client.ask("What is this?", [media.coffee()], model=PHOTOS)

    assert (answer.text, answer.finish_reason, answer.is_whole) == ("espresso", "stop", True)
    assert client.status(answer.rid).answer.text == "espresso"
    assert answer.raw["object"] == "chat.completion"


def test_an_answer_grows_on_both_ways(client):
    """Each event holds all of the text so far; the last is whole, and has the counts."""
    asked = list(client.ask_stream(None, [media.fox_recording()], model=SPEECH))
    generated = list(client.stream(model=SPEECH, text="transcribe", audio=[media.fox_recording()]))

    for answers in (asked, generated):
        texts = [answer.text for answer in answers]
        assert texts[-1] == FOX
        assert len(texts) > 5
        assert all(after.startswith(before) for before, after in pairwise(texts))
        assert [answer.is_whole for answer in answers] == [False] * (len(answers) - 1) + [True]
        assert answers[-1].completion_tokens > 5
    assert asked[-1].prompt_tokens == generated[-1].prompt_tokens


def test_leaving_a_stream_cancels_its_request(client, api: Client):
    """Nobody computes what nobody reads."""
    stream = client.ask_stream(None, [media.fox_recording()], model=SPEECH)
    rid = next(stream).rid

    stream.close()

    give_up_at = time.monotonic() + 10
    while not api.status(rid).state.is_end:
        assert time.monotonic() < give_up_at, api.status(rid)
        time.sleep(0.02)
    assert api.status(rid).state in ("cancelled", "done")


def test_a_request_is_submitted_waited_for_and_looked_at(client):
    """With typed results at every step."""
    submitted = client.submit(model=PHOTOS, text="x", images=[media.coffee()])

    answer = client.wait(submitted.rid, timeout_s=60)
    status = client.status(submitted.rid)

    assert (answer.text, answer.rid, submitted.model) == ("espresso", submitted.rid, PHOTOS)
    assert (status.state, status.attempt, status.answers, status.error) == ("done", 1, (answer,), None)
    assert status.deadline_ms == submitted.deadline_ms > status.times_ms["end"] > status.times_ms["accepted"]


def test_waiting_for_what_ended_badly_is_its_error(client):
    """The same as if it had been waited for from the start."""
    submitted = client.submit(model=PHOTOS, text="x", images=[b"no picture"])

    with pytest.raises(RequestFailedError) as caught:
        client.wait(submitted.rid, timeout_s=60)

    told = caught.value
    assert (told.status, told.code, told.param, told.rid) == (400, "unsupported_image", "image_data[0]", submitted.rid)
    assert not told.is_retryable


def test_a_cancelled_request_says_so(client, deployment: Deployment):
    """Also to whoever waits for it; cancelling again changes nothing."""
    submitted = client.submit(model=SPEECH, text="x", audio=[media.fox_recording()])

    first = client.cancel(submitted.rid)

    assert first in ("cancelled", "done")
    assert client.cancel(submitted.rid) == first
    if first == "cancelled":
        with pytest.raises(RequestFailedError, match="499 cancelled"):
            client.wait(submitted.rid, timeout_s=10)


def test_features_are_described_with_types(client):
    """The API's own words lie beside."""
    text = "<|vision_start|><|image_pad|><|vision_end|>What is this?"
    preparation = client.preprocess(model=QWEN, text=text, images=[media.plain_png(56, 56)])

    [item] = preparation.items
    assert (item.modality, item.dtype, item.shape, item.spans) == ("image", "float32", (16, 1176), ((1, 4),))
    assert item.data["image_grid_thw"] == [1, 4, 4]
    assert client.status(preparation.rid).preparation.items[0].sha256 == item.sha256
    assert preparation.raw["items"][0]["hash"] == item.hash


def test_several_prompts_and_several_answers_are_a_list(client):
    """What is wrong with one of them stands in its place."""
    answers = client.generate_many(
        model=PHOTOS, text=["a", "b"], images=[media.coffee(), b"no picture"], sampling_params={"max_new_tokens": 2}
    )
    twice = client.generate_many(model=QWEN, text="Hi", sampling_params={"n": 2, "max_new_tokens": 2})

    assert answers[0].text == "espresso"
    assert (answers[1].status, answers[1].code) == (400, "unsupported_image")
    assert [answer.index for answer in twice] == [0, 1]


def test_models_say_whether_they_are_run(client):
    """A model without an engine can be asked for features alone."""
    assert {Model(PHOTOS, has_engine=True), Model("qwen3-vl", has_engine=False)} <= set(client.models())


def test_a_refusal_has_its_code_and_its_place(client):
    """As docs/errors.md lists it."""
    with pytest.raises(RequestFailedError) as caught:
        client.generate(model="nobody", text="Hi")

    assert (caught.value.status, caught.value.code) == (404, "model_not_found")


def test_a_folder_is_asked_about_file_by_file_and_gone_on_with(client, folder: Path, tmp_path: Path):
    """A row for each file in order, a bad one harms no other, and what was answered is not asked again."""
    out, told = tmp_path / "results.jsonl", []

    rows = client.batch(folder, "What?", model=PHOTOS, out=out, progress=lambda _row, *counts: told.append(counts))

    assert [Path(row.file).name for row in rows] == ["a.png", "b.png", "c.PNG"]
    assert [row.answer and row.answer.text for row in rows] == ["espresso", None, "espresso"]
    assert rows[1].error.code == "unsupported_image"
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert len(out.read_text().splitlines()) == 3
    shutil.copy(media.coffee(), folder / "b.png")
    again = client.batch(folder, "What?", model=PHOTOS, out=out)
    assert [row.answer.text for row in again] == ["espresso"] * 3
    assert [row.answer.rid for row in again[::2]] == [row.answer.rid for row in rows[::2]]
    assert len(out.read_text().splitlines()) == 4


def send(deployment: Deployment, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", "send", *map(str, arguments)]
    env = {**os.environ, "FOREBAY_URL": deployment.url}
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_sending_a_photo_prints_its_answer(deployment: Deployment, how: str):
    """One line, nothing else."""
    sent = send(deployment, media.coffee(), "What is this?", "--model", PHOTOS, how)

    assert (sent.stdout, sent.stderr, sent.returncode) == ("espresso\n", "", 0)


def test_sending_as_json_prints_what_the_api_said(deployment: Deployment):
    """For programs."""
    sent = send(deployment, media.fox_recording(), "--model", SPEECH, "--json")

    assert json.loads(sent.stdout)["choices"][0]["message"]["content"] == FOX


def test_a_length_is_kept(deployment: Deployment):
    """And several files are one question."""
    options = ("--model", QWEN, "--max-tokens", 3, "--json")
    sent = send(deployment, media.rocket(), media.cat(), "Which is faster?", *options)

    assert json.loads(sent.stdout)["usage"]["completion_tokens"] == 3


def test_an_error_is_one_line(deployment: Deployment, tmp_path: Path):
    """With its status and code; the exit status tells it too."""
    (tmp_path / "bad.png").write_bytes(b"no picture")

    sent = send(deployment, tmp_path / "bad.png", "What?", "--model", PHOTOS)

    assert (sent.stdout, sent.returncode) == ("", 1)
    assert sent.stderr.startswith(f"{tmp_path / 'bad.png'}: 400 unsupported_image: ")
    assert sent.stderr.count("\n") == 1


def test_sending_a_folder_prints_a_line_a_file(deployment: Deployment, folder: Path, tmp_path: Path):
    """Or writes them; what failed is told, and the exit status says that something did."""
    sent = send(deployment, folder.name, "What?", "--model", PHOTOS, cwd=folder.parent)
    written = send(deployment, folder, "What?", "--model", PHOTOS, "--out", tmp_path / "out.jsonl")

    assert sent.stdout == "photos/a.png: espresso\nphotos/c.PNG: espresso\n"
    assert [line.partition(": ")[0] for line in sent.stderr.splitlines()] == [
        "photos/b.png",
        "1 of 3 files have no answer",
    ]
    assert (sent.returncode, written.returncode, written.stdout) == (1, 1, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(Path(row["file"]).name for row in rows if "text" in row) == ["a.png", "c.PNG"]


def test_ctrl_c_cancels_what_was_sent(deployment: Deployment, api: Client):
    """Nobody computes an answer for a terminal that has moved on."""
    children = deployment.pids_of("worker")[1:]
    for child in children:
        os.kill(child, signal.SIGSTOP)  # so that it cannot be answered before
    try:
        before = live(api, deployment)
        command = [sys.executable, "-m", "forebay", "send", str(media.coffee()), "--model", PHOTOS]
        env = {**os.environ, "FOREBAY_URL": deployment.url}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: live(api, deployment) == before + 1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        until(lambda: live(api, deployment) == before)
    finally:
        for child in children:
            os.kill(child, signal.SIGCONT)

    assert (said, process.returncode) == ("cancelled\n", 130)


def live(api: Client, deployment: Deployment) -> int:
    """Callers that wait at the API now."""
    import httpx

    lines = httpx.get(f"{deployment.url}/metrics").text.splitlines()
    return int(float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith("forebay_waiting_callers"))))


def until(is_so) -> None:
    give_up_at = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
