"""A load generator that costs little: prepared bytes over persistent connections, one asyncio loop."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field

from benchmarks.picture import jpeg


@dataclass(slots=True)
class Load:
    """What a load saw: when each request ended, and how long each took."""

    latencies_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies_s) / self.seconds

    def percentile_ms(self, share: float) -> float:
        """The latency that ``share`` of the requests did not exceed."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


def requests(host: str, path: str, count: int) -> list[bytes]:
    """One request for each of ``count`` different pictures."""
    return [_request(host, path, jpeg(seed)) for seed in range(count)]


def _request(host: str, path: str, picture: bytes) -> bytes:
    text = "<|vision_start|><|image_pad|><|vision_end|>What is this?"
    body = {"model": "qwen2-vl", "text": text, "image_data": base64.b64encode(picture).decode()}
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def send(port: int, prepared: list[bytes], connections: int, seconds: float) -> Load:
    """Keep ``connections`` requests under way for a time."""
    load = Load()
    began = time.perf_counter()
    stop_at = began + seconds
    await asyncio.gather(*(_connection(port, prepared, number, stop_at, load) for number in range(connections)))
    load.seconds = time.perf_counter() - began
    return load


async def _connection(port: int, prepared: list[bytes], number: int, stop_at: float, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < stop_at:
        began = time.perf_counter()
        writer.write(prepared[number % len(prepared)])
        await writer.drain()
        status, body = await _answer(reader)
        if status == 200:
            load.latencies_s.append(time.perf_counter() - began)
        else:
            load.failures.append(body.decode()[:200])
        number += 1
    writer.close()
    await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.split("content-length:")[1].split("\r\n")[0])
    return int(head.split(" ")[1]), await reader.readexactly(length)
