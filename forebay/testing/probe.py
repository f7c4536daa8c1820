"""A processor in a process that was started for it: what it computes there, and in a child forked from there.

The process is one as a worker's child is: numerical libraries have one thread. It gets the class by its name, so a
class that is defined inside a function has none.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

from forebay.model import ModelSource
from forebay.outcome import outcome_of
from forebay.processor import Processor, Tokenizer, WorkerStart
from forebay.testing.as_worker import as_on_a_worker
from forebay.testing.report import Fault, NotRun
from forebay.testing.subject import Request, Snapshot, Subject

_LONGEST_S = 120  # until a process or a fork that says nothing is taken for stuck
_START = WorkerStart(0, ())
_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What the process is asked: to build the processor, and to drive these requests."""

    cls: type[Processor]
    model: ModelSource
    tokenizer: Tokenizer | None
    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What it has found.

    Attributes:
        results: of the process itself, one a request.
        forked: of a child that was forked between building and the first request.
        fork_error: what became of that child instead; empty when it answered.
        config: the processor's, as JSON.
        threads: names of Python threads that building it or the requests left.
    """

    results: tuple[Snapshot, ...]
    forked: tuple[Snapshot, ...]
    fork_error: str
    config: str
    threads: tuple[str, ...]


def probe(subject: Subject) -> Answer:
    """The answer of a fresh process; it is asked once.

    Raises:
        NotRun: the class cannot be found by its name, or something that it was given cannot be sent.
        Fault: the process fails.
    """
    if subject.answer is None:
        subject.answer = _ask(subject)
    assert isinstance(subject.answer, Answer)
    return subject.answer


def _ask(subject: Subject) -> Answer:
    if not subject.can_be_probed:
        raise NotRun(f"{type(subject.processor).__qualname__} cannot be imported by its name in another process")
    own = subject.processor.tokenizer() is not None
    question = Question(
        type(subject.processor), subject.processor.model, None if own else subject.tokenizer, subject.requests
    )
    try:
        data = pickle.dumps(question)
    except Exception as error:
        raise NotRun(f"what it was given cannot be sent to another process: {error}") from error
    # Another seed than ours: whatever follows Python's own hashes must differ.
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    env = {**os.environ, **dict.fromkeys(_LIBRARIES, "1"), "PYTHONHASHSEED": seed}
    env["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - as Python reads it
    command = [sys.executable, "-m", "forebay.testing.probe"]
    try:
        done = subprocess.run(command, input=data, env=env, capture_output=True, timeout=_LONGEST_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"a fresh process gave no answer in {_LONGEST_S} s") from error
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise Fault(f"a fresh process fails: {last[0]}")
    answer = pickle.loads(done.stdout)  # noqa: S301 - from a process that we have started
    assert isinstance(answer, Answer)
    return answer


def answer(question: Question) -> Answer:
    """In the fresh process: build, fork, drive."""
    before = set(threading.enumerate())
    processor = question.cls.build(question.model)
    with as_on_a_worker():
        return _answered(question, processor, before)


def _answered(question: Question, processor: Processor, before: set[threading.Thread]) -> Answer:
    capabilities = processor.capabilities()
    tokenizer = question.tokenizer or processor.tokenizer()
    subject = Subject(processor, capabilities, tokenizer, question.requests, calls=1)
    forked, error = _in_a_fork(subject)
    left = set(threading.enumerate()) - before
    processor.start_worker(_START)
    before = set(threading.enumerate())  # what a child starts for itself is its own affair
    results = _results(subject)
    config = json.dumps(processor.config(), sort_keys=True)
    left |= set(threading.enumerate()) - before
    return Answer(results, forked, error, config, tuple(sorted(one.name for one in left)))


def _results(subject: Subject) -> tuple[Snapshot, ...]:
    return tuple(Snapshot.of(subject.ask(request)) for request in subject.requests)


def _in_a_fork(subject: Subject) -> tuple[tuple[Snapshot, ...], str]:
    """The results of a forked child, or what became of it."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(subject, write)
    os.close(write)
    clock = threading.Timer(_LONGEST_S / 2, os.kill, (pid, 9))
    clock.start()
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    clock.cancel()
    clock.join()
    if not told:
        killed = os.WIFSIGNALED(status)
        return (), f"the child was ended by signal {os.WTERMSIG(status)}, stuck or broken" if killed else "no answer"
    result = pickle.loads(told)  # noqa: S301 - from our own child
    return (result, "") if isinstance(result, tuple) else ((), str(result))


def _child(subject: Subject, write: int) -> None:
    """Say the results, or the error as a text, and leave without what the parent would do at its end."""
    said: Any
    try:
        subject.processor.start_worker(_START)
        said = _results(subject)
    except Exception as error:  # noqa: BLE001 - whatever a guest raises is the answer
        said = outcome_of(error)
    with os.fdopen(write, "wb") as pipe:
        pickle.dump(said, pipe)
    os._exit(0)


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Read a question, write its answer. What the processor prints goes to the errors."""
    sys.stdout = sys.stderr
    question: Question = pickle.load(source)  # noqa: S301 - from the process that has started us
    pickle.dump(answer(question), sink)


if __name__ == "__main__":
    # As a module of its own this file would have a second Question, which pickle takes for another class.
    from forebay.testing import probe as module

    module.main(sys.stdin.buffer, sys.stdout.buffer)
