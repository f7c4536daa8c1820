"""Requests over HTTP, and what SGLang's Rust frontend answered to each: a status, or the grids of the items."""

from __future__ import annotations

import base64
import io
import textwrap
from typing import Any

import numpy as np
from PIL import Image

from tests.api.differences import Row, Why
from tests.support.media import encoded, plain_png
from tests.support.tiny_qwen import IMAGE_PAD

A, B, C = (base64.b64encode(plain_png(*size)).decode() for size in ((84, 56), (56, 84), (112, 112)))
GRID_A, GRID_B, GRID_C = [1, 4, 6], [1, 6, 4], [1, 8, 8]
MARK = "<|vision_start|><|image_pad|><|vision_end|>"
ANSWER = "an answer"
NO_ITEM: list[Any] = []


def noise(kind: str, **options: Any) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (56, 84, 3), np.uint8)
    return encoded(pixels, kind, **options)


def turned() -> bytes:
    """84 wide and 56 high, to be shown standing."""
    buffer, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (84, 56)).save(buffer, "PNG", exif=exif)
    return buffer.getvalue()


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


JPEG = noise("JPEG", quality=90)
BARE_JPEG = text_of(JPEG)
TRUNCATED = "data:image/jpeg;base64," + text_of(JPEG[: len(JPEG) // 2])
SIXTEEN_BITS = text_of(encoded(np.full((56, 84), 32768, np.uint16), "PNG"))
assert BARE_JPEG.startswith("/9j/")  # what the original takes for a path

URL_SAFE = base64.urlsafe_b64encode(noise("PNG")).decode()
assert "-" in URL_SAFE
assert "_" in URL_SAFE
PADDED = next(text for text in (text_of(plain_png(84, 56, (n, 0, 0))) for n in range(99)) if text.endswith("="))


def about(name: str, image_data: Any, seen: Any, *difference: Any, text: Any = MARK, **more: Any) -> Row:
    """A question about one picture, or whatever else is sent in its place."""
    return Row(name, {"model": "qwen2-vl", "text": text, "image_data": image_data, **more}, seen, *difference)


def other(name: str, seen: Any, *difference: Any, path: str = "/v1/preprocess", **body: Any) -> Row:
    return Row(name, {"model": "qwen2-vl", **body}, seen, *difference, path=path)


WORKERS = (500, 400, Why.CLIENTS_FAULT)
FORGIVEN = (500, [GRID_A], Why.FORGIVING_BASE64)

SOURCES = [
    about("bare base64", A, [GRID_A]),
    about("data url", f"data:image/png;base64,{A}", [GRID_A]),
    about("data url of another type", f"data:text/html;base64,{A}", [GRID_A]),
    about("object", {"url": A}, [GRID_A]),
    about("list of one", [A], [GRID_A]),
    about("blanks around", f" \n{A}\n ", [GRID_A]),
    about("blanks behind the comma", f"data:;base64, {A}", [GRID_A]),
    about("jpeg in a data url", f"data:image/jpeg;base64,{BARE_JPEG}", [GRID_A]),
    about("bare jpeg", BARE_JPEG, 400, [GRID_A], Why.BARE_JPEG),
    about("bare jpeg behind a blank", f" {BARE_JPEG}", [GRID_A]),
    about("data url without base64", f"data:image/png,{A}", [GRID_A], 400, Why.ONLY_BASE64_URLS),
    about("data url without a comma", "data:image/png;base64", *WORKERS),
    about("data url in capitals", f"DATA:image/png;base64,{A}", 500, [GRID_A], Why.UPPER_CASE_SCHEME),
    about("line breaks", "\n".join(textwrap.wrap(A, 76)), *FORGIVEN),
    about("url-safe alphabet", URL_SAFE, *FORGIVEN),
    about("missing padding", PADDED.rstrip("="), *FORGIVEN),
    about("escaped in a data url", f"data:;base64,{PADDED.replace('=', '%3D')}", *FORGIVEN),
    about("escaped", PADDED.replace("=", "%3D"), *WORKERS),
    about("empty", "", *WORKERS),
    about("blanks alone", "  ", *WORKERS),
    about("empty data url", "data:image/png;base64,", *WORKERS),
    about("no image", text_of(b"hello world"), *WORKERS),
    about("relative path", "pictures/cat.png", *WORKERS),
    about("path in the home", "~/cat.png", *WORKERS),
    about("file without slashes", "file:/cat.png", *WORKERS),
    about("file in capitals", "FILE:///cat.png", 400),
    about("another scheme", "s3://bucket/cat.png", 400),
    about("missing file", "file:///no/such/cat.png", 400),
    about("directory", "file:///", 400),
    # Both were seen with a picture behind them, which a test need not have: nobody here may look.
    about("file of the server", "file:///etc/hostname", [GRID_A], 400, Why.NO_FILES),
    about("host of the server", "http://127.0.0.1:9/cat.png", [GRID_A], 400, Why.NO_LOCAL_HOSTS),
]

PIXELS = [
    about("truncated jpeg", TRUNCATED, [GRID_A], 400, Why.TRUNCATED),
    about("truncated png", text_of(noise("PNG")[:2000]), *WORKERS),
    about("sixteen bits", SIXTEEN_BITS, 500, [GRID_A], Why.SIXTEEN_BITS),
    about("oriented", text_of(turned()), [GRID_A], [GRID_B], Why.EXIF),
    about("animation", text_of(noise("GIF")), [GRID_A]),
    about("two hundred to one", text_of(plain_png(200, 1)), [[1, 2, 58]]),
    about("above two hundred to one", text_of(plain_png(201, 1)), *WORKERS),
    about("one pixel", text_of(plain_png(1, 1)), [[1, 4, 4]]),
]

IDS = [1, IMAGE_PAD, 2]
PROMPTS = [
    other("ids", [GRID_A], input_ids=IDS, image_data=A),
    other("adjacent placeholders", [GRID_A, GRID_B], input_ids=[IMAGE_PAD] * 2, image_data=[A, B]),
    other("expanded already", *WORKERS, input_ids=[IMAGE_PAD] * 6, image_data=A),
    about("placeholders and too few images", [A], *WORKERS, text=MARK * 2),
    about("placeholders and too many images", [A, B], *WORKERS),
    about("no placeholder", A, *WORKERS, text="x"),
    about("placeholder and no image", [], NO_ITEM, 400, Why.LOST_PLACEHOLDER),
    other("id outside the vocabulary", 400, input_ids=[151_936]),
    other("longer than the context", 400, path="/generate", input_ids=[1] * 5000),
    about("video", A, *WORKERS, video_data=A),
    about("audio", A, *WORKERS, audio_data=A),
    about("no video", A, [GRID_A], video_data=[], audio_data=[None]),
    about("extension", A, *WORKERS, multimodal_x=1),
    about("empty extension", A, *WORKERS, multimodal_x=[]),
    other("empty extension of a text", NO_ITEM, text="x", multimodal_x=[]),
    other("extension of a text", *WORKERS, text="x", multimodal_x=1),
    about("65 images", [A] * 65, [GRID_A] * 65, 400, Why.MOST_ITEMS, text=MARK * 65),
]

TWO = [MARK, MARK]
BATCHES = [
    about("batch", [A, B], [[GRID_A], [GRID_B]], text=TWO),
    about("batch, nested", [[A, B], [C]], [[GRID_A, GRID_B], [GRID_C]], text=[MARK * 2, MARK]),
    about("batch, one for all", A, [[GRID_A]] * 2, text=TWO),
    about("batch, second of text", [A, None], [[GRID_A], NO_ITEM], text=[MARK, "x"]),
    about("batch, first of text", [None, [B]], 400, [NO_ITEM, [GRID_B]], Why.NULL_FIRST, text=["x", MARK]),
    about("batch of one", [A], [[GRID_A]], text=[MARK]),
    about("batch, one bad on the worker", [text_of(b"hello"), B], [500, [GRID_B]], [400, [GRID_B]],
          Why.CLIENTS_FAULT, text=TWO),
    about("batch, one without a text", [A, B], [400, [GRID_B]], text=["", MARK]),
    about("batch, one file missing", ["file:///no/such/cat.png", B], 400, [400, [GRID_B]],
          Why.ITS_OWN_PROMPTS_MISTAKE, text=TWO),
    about("batch, null extension of one", [A, B], [500, 500], [[GRID_A], 400], Why.NULL_EXTENSION,
          text=TWO, multimodal_x=[None, 1]),
]  # fmt: skip

ONE_TOKEN = {"max_new_tokens": 1}
ANSWERS = [
    other("text", ANSWER, path="/generate", text="Hello", sampling_params=ONE_TOKEN),
    other("image", ANSWER, path="/generate", text=MARK, image_data=A, sampling_params=ONE_TOKEN),
    other("answers of a batch", [ANSWER] * 2, path="/generate", text=["x", "y"], sampling_params=ONE_TOKEN),
    other("two answers", 400, [ANSWER] * 2, Why.SEVERAL_ANSWERS, path="/generate", text="x",
          sampling_params={**ONE_TOKEN, "n": 2}),
    other("two answers of a batch's prompt", [ANSWER, 400], [ANSWER] * 3, Why.SEVERAL_ANSWERS, path="/generate",
          text=["x", "y"], sampling_params=[ONE_TOKEN, {**ONE_TOKEN, "n": 2}]),
    other("conversation with an image", 400, ANSWER, Why.CHAT_IMAGES, path="/v1/chat/completions", max_tokens=1,
          messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": A}}]}]),
    other("abort of nobody", "nothing", path="/abort_request", rid="nobody"),
    Row("abort without a body", b"", "nothing", path="/abort_request"),
]  # fmt: skip

ROWS = [*SOURCES, *PIXELS, *PROMPTS, *BATCHES, *ANSWERS]
