"""What a batch makes of one file, and how that stands in a JSONL file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forebay.client.answers import Answer
from forebay.client.errors import FileError, RequestFailedError, UnreachableError
from forebay.errors import ForebayError, Problem

_UNREACHABLE, _FILE = "unreachable", "file_error"
_TOLD = ("rid", "text", "prompt_tokens", "completion_tokens", "finish_reason")


@dataclass(frozen=True, slots=True)
class Question:
    """What a batch asks about each file."""

    prompt: str | None
    model: str | None
    max_tokens: int | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a conversation's body."""
        return {"model": self.model, "max_tokens": self.max_tokens}


@dataclass(frozen=True, slots=True)
class Row:
    """One file's answer, or why it has none."""

    file: str
    answer: Answer | None = None
    error: ForebayError | None = None

    @property
    def is_answered(self) -> bool:
        return self.answer is not None

    def as_map(self, question: Question) -> dict[str, Any]:
        """One line of a JSONL file: what was asked beside what was answered."""
        asked = {"file": self.file, "prompt": question.prompt, "model": question.model}
        if self.answer is not None:
            return {**asked, **{name: getattr(self.answer, name) for name in _TOLD}}
        return {**asked, "error": _told(self.error)}

    @classmethod
    def from_map(cls, told: Mapping[str, Any]) -> Row:
        """A row that stood in a JSONL file."""
        if "error" not in told:
            return cls(told["file"], Answer(**{name: told[name] for name in _TOLD}, raw=told))
        return cls(told["file"], error=_error(told["error"]))


def _told(error: ForebayError | None) -> dict[str, Any]:
    if isinstance(error, RequestFailedError):
        return {**error.problem.as_map(), "rid": error.rid}
    return {"code": _FILE if isinstance(error, FileError) else _UNREACHABLE, "message": str(error)}


def _error(told: Mapping[str, Any]) -> ForebayError:
    if told["code"] == _FILE:
        return FileError(told["message"])
    if told["code"] == _UNREACHABLE:
        return UnreachableError(told["message"], was_sent=True)
    return RequestFailedError(Problem.from_map(told), told["rid"])
