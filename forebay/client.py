"""A client of the API for scripts, tests and the demo. Any HTTP client does as well; this one knows the shapes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from forebay.errors import ForebayError, Problem

Source = str | bytes | Path
_LONGEST_ANSWER_S = 600.0


class RequestFailedError(ForebayError):
    """The API answered with an error."""

    def __init__(self, problem: Problem, rid: str | None) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.message}")
        self.problem = problem
        self.rid = rid


def encode(source: Source) -> str:
    """Media as the API takes them: a path or bytes become base64, a string stays as it is."""
    if isinstance(source, str):
        return source
    data = source.read_bytes() if isinstance(source, Path) else source
    return base64.b64encode(data).decode()


def request_body(*, images: Sequence[Source] = (), audio: Sequence[Source] = (), **fields: Any) -> dict[str, Any]:
    """A body for ``/generate`` and its relatives; fields that are ``None`` are left out."""
    body = {name: value for name, value in fields.items() if value is not None}
    if images:
        body["image_data"] = [encode(image) for image in images]
    if audio:
        body["audio_data"] = [encode(one) for one in audio]
    return body


class Client:
    """Talks to one API."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=httpx.Timeout(_LONGEST_ANSWER_S, connect=5.0))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def generate(self, **request: Any) -> dict[str, Any]:
        """Preprocess, run the model, return the answer; see ``request_body`` for the arguments.

        Raises:
            RequestFailedError: the API refused, or the request failed.
        """
        return self._call("POST", "/generate", request_body(**request))

    def stream(self, **request: Any) -> Iterator[dict[str, Any]]:
        """The answer as it grows; each event holds all of the text so far. Errors as ``generate``."""
        body = request_body(**request, stream=True)
        with self._http.stream("POST", "/generate", json=body) as response:
            if response.is_error:
                response.read()
                raise _failure(response.status_code, response.json())
            yield from _events(response)

    def preprocess(self, **request: Any) -> dict[str, Any]:
        """The features of a request, described. Errors as ``generate``."""
        return self._call("POST", "/v1/preprocess", request_body(**request))

    def submit(self, **request: Any) -> str:
        """Send a request without waiting; its id. Errors as ``generate``."""
        return str(self._call("POST", "/v1/requests", request_body(**request))["rid"])

    def status(self, rid: str) -> dict[str, Any]:
        """How a request stands. Errors as ``generate``."""
        return self._call("GET", f"/v1/requests/{quote(rid, safe='')}")

    def cancel(self, rid: str) -> dict[str, Any]:
        """Cancel a request. Errors as ``generate``."""
        return self._call("DELETE", f"/v1/requests/{quote(rid, safe='')}")

    def models(self) -> list[str]:
        """Names of the models that are served."""
        return [model["id"] for model in self._call("GET", "/v1/models")["data"]]

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self._http.request(method, path, json=body)
        answer: dict[str, Any] = response.json()
        if response.is_error:
            raise _failure(response.status_code, answer)
        return answer


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data: ")
        if not line or data == "[DONE]":
            continue
        event = json.loads(data)
        if "error" in event:
            raise _failure(500, event)
        yield event


def _failure(status: int, answer: dict[str, Any]) -> RequestFailedError:
    error = answer["error"]
    return RequestFailedError(Problem(error["code"], error["message"], status, error["param"]), error["rid"])
