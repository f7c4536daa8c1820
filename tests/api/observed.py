"""Bodies, and what SGLang's Rust frontend makes of each before any media are looked at: the split, or the refusal."""

from __future__ import annotations

from typing import Any

from api.limits import Limits
from forebay import Modality
from tests.api.differences import Row, Why

A, B, C = "A", "B", "C"
SHARED = {"url": "S"}


def single(name: str, image_data: Any, seen: Any, *difference: Any, **more: Any) -> Row:
    return Row(f"single {name}", {"text": "x", "image_data": image_data}, seen, *difference, **more)


def batch(name: str, image_data: Any, seen: Any, *difference: Any, **more: Any) -> Row:
    return Row(f"batch {name}", {"text": ["x", "y"], "image_data": image_data}, seen, *difference, **more)


def prompt(name: str, seen: Any, *difference: Any, **body: Any) -> Row:
    return Row(f"prompt {name}", body, seen, *difference, of="prompt")


def field(name: str, seen: Any, *difference: Any, **body: Any) -> Row:
    return Row(f"field {name}", {"text": "x", **body}, seen, *difference)


def two(name: str, seen: Any, *difference: Any, of: str, **body: Any) -> Row:
    return Row(f"two {name}", {"text": ["x", "y"], **body}, seen, *difference, of=of)


SINGLE = [
    single("one", A, [[A]]),
    single("object", {"url": A}, [[A]]),
    single("list of one", [A], [[A]]),
    single("object with detail", {"url": A, "detail": "any", "min_pixels": 1, "max_pixels": 2}, [[A]]),
    single("object with a hash", {"url": A, "content_hash": "ff"}, [[A]]),
    single("item and null", [A, None], [[A]]),
    single("null", None, [[]]),
    single("empty list", [], [[]]),
    single("list of null", [None], [[]]),
    single("nested", [[A]], 400),
    single("nested and empty", [[]], 400),
    single("mixed", [A, [B]], 400),
    single("nested twice", [[[A]]], 400),
    single("number", 5, 400),
    single("boolean", True, 400),
    single("list of a number", [5], 400),
    single("item and number", [A, 5], 400),
    single("object without url", {}, 400),
    single("object with an empty url", {"url": ""}, 400),
    single("object that was preprocessed", {"format": "x"}, 400),
    single("object with an unknown key", {"url": A, "x": 1}, 400, [[A]], Why.LENIENT_ITEM),
    single("65 items", [A] * 65, [[A] * 65], 400, Why.MOST_ITEMS),
    single("one too many", [A, B], 400, limits=Limits(by_modality={Modality.IMAGE: 1})),
    single("nulls do not count", [A, None], [[A]], limits=Limits(by_modality={Modality.IMAGE: 1})),
]

BATCHES = [
    batch("flat", [A, B], [[A], [B]]),
    batch("nested", [[A], [B]], [[A], [B]]),
    batch("nested, two and one", [[A, B], [C]], [[A, B], [C]]),
    batch("objects", [{"url": A}, {"url": B}], [[A], [B]]),
    batch("null inside a row", [[A, None], [B]], [[A], [B]]),
    batch("one for all", A, [[A], [A]]),
    batch("one object for all", SHARED, [["S"], ["S"]]),
    batch("empty", [], [[], []]),
    batch("absent", None, [[], []]),
    batch("nulls", [None, None], [[], []]),
    batch("empty rows", [[], []], [[], []]),
    batch("item and null", [A, None], [[A], []]),
    batch("row and null", [[A], None], [[A], []]),
    batch("row and empty row", [[A], []], [[A], []]),
    batch("null and row", [None, [B]], 400, [[], [B]], Why.NULL_FIRST),
    batch("item and row", [A, [B]], 400),
    batch("row and item", [[A], B], 400),
    Row("three null, item, row", {"text": ["x", "y", "z"], "image_data": [None, B, [A]]}, 400),
    batch("too short", [A], 400),
    batch("too long", [A, B, C], 400),
    batch("nested and too short", [[A]], 400),
    batch("one for all that becomes too much", "123456", 400, 413, Why.SAID_BY_STATUS,
          limits=Limits(broadcast_bytes=10)),
    batch("one prompt over the limit", [[A, B], [C]], 400, [400, [C]], Why.ITS_OWN_PROMPTS_MISTAKE,
          limits=Limits(by_modality={Modality.IMAGE: 1})),
    Row("batch of one, item for all", {"text": ["x"], "image_data": A}, [[A]]),
    Row("batch of one, flat", {"text": ["x"], "image_data": [A]}, [[A]]),
    Row("batch of one, nested", {"text": ["x"], "image_data": [[A, B]]}, [[A, B]]),
    Row("batch of one, too long", {"text": ["x"], "image_data": [A, B]}, 400),
    Row("batch as large as may be", {"text": ["x"] * 4096}, [[]] * 4096),
    Row("batch too large", {"text": ["x"] * 4097}, 400),
]  # fmt: skip

PROMPTS = [
    prompt("text", ["x"], text="x"),
    prompt("ids", [(1, 2)], input_ids=[1, 2]),
    prompt("texts", ["x", "y"], text=["x", "y"]),
    prompt("rows of ids", [(1, 2), (3,)], input_ids=[[1, 2], [3]]),
    prompt("both", 400, text="x", input_ids=[1]),
    prompt("neither", 400),
    prompt("empty text", 400, text=""),
    prompt("empty text in a batch", [400, "y"], text=["", "y"]),
    prompt("no id", 400, input_ids=[]),
    prompt("no id in a row", 400, input_ids=[[1], []]),
    prompt("negative id", 400, input_ids=[-1]),
    prompt("floats", 400, input_ids=[1.5]),
    prompt("strings", 400, input_ids=["1"]),
    prompt("mixed nesting", 400, input_ids=[1, [2]]),
    prompt("number as text", 400, text=5),
]

FIELDS = [
    field("no video", [[]], video_data=[], audio_data=None),
    field("null video", [[]], video_data=[None]),
    field("unknown", [[]], hello={"a": 1}),
    field("modalities", [[]], modalities=["image"]),
    field("upper case extension", [[]], MULTIMODAL_X=1),
    field("content hashes", [[]], mm_content_hashes=["ff"]),
    field("stream of a wrong type", 400, stream="yes"),
    field("an engine's field of a wrong type", 400, [[]], Why.ENGINES_BUSINESS, return_logprob="x"),
    field("an engine's field that is refused", 400, [[]], Why.ENGINES_BUSINESS, session_params={}),
    field("modalities of a wrong type", 400, [[]], Why.ENGINES_BUSINESS, modalities=5),
    field("unknown sampling parameter", 400, [[]], Why.ENGINES_BUSINESS, sampling_params={"hello": 1}),
    Row("json empty", b"", 400),
    Row("json broken", b"{", 400),
    Row("json packed", b"\x1f\x8b\x08", 400),
    Row("json list", b"[1]", 400),
    Row("json key twice", b'{"text": "x", "text": "y"}', ["y"], of="prompt"),
]

RIDS = [
    Row("rid of one", {"text": "x", "rid": "r"}, ["r"], of="rid"),
    Row("rid that is empty", {"text": "x", "rid": ""}, ["32 hex digits"], of="rid"),
    Row("rid that is missing", {"text": "x"}, ["32 hex digits"], of="rid"),
    Row("rid as long as may be", {"text": "x", "rid": "r" * 128}, ["r" * 128], of="rid"),
    Row("rid too long", {"text": "x", "rid": "r" * 129}, 400, of="rid"),
    Row("rid list for a single request", {"text": "x", "rid": ["r"]}, 400, of="rid"),
    two("rid for all", ["r_0", "r_1"], of="rid", rid="r"),
    two("rids", ["p", "q"], of="rid", rid=["p", "q"]),
    two("rids, one twice", 400, of="rid", rid=["p", "p"]),
    two("rids, too few", 400, of="rid", rid=["p"]),
]

SAMPLING = [
    Row("n of one", {"text": "x", "sampling_params": {"n": 1}}, [1], of="samples"),
    Row("n of none", {"text": "x", "sampling_params": {"n": 0}}, 400, of="samples"),
    Row("n of two", {"text": "x", "sampling_params": {"n": 2}}, 400, [2], Why.SEVERAL_ANSWERS, of="samples"),
    two("n of none for one prompt", [1, 400], of="samples", sampling_params=[{}, {"n": 0}]),
    two("n of two for one prompt", [1, 400], [1, 2], Why.SEVERAL_ANSWERS, of="samples",
        sampling_params=[{}, {"n": 2}]),
    two("sampling for all", [{"x": 1}] * 2, of="sampling", sampling_params={"x": 1}),
    two("samplings, too few", 400, of="sampling", sampling_params=[{}]),
]  # fmt: skip


def hashed(name: str, mm_hashes: Any, seen: Any, images: Any = A) -> Row:
    """A single request; each item's own hash, which the caller's replaces, is called 'own' in what was seen."""
    return Row(f"hashes {name}", {"text": "x", "image_data": images, "mm_hashes": mm_hashes}, seen, of="hashes")


HASHES = [
    hashed("two digits", ["ff"], [(255,)]),
    hashed("capitals", ["DEADBEEF"], [(0xDEADBEEF,)]),
    hashed("prefix", ["0x10"], [(16,)]),
    hashed("sha-256", ["ab" * 24 + "0123456789abcdef"], [(0x0123456789ABCDEF,)]),
    hashed("sha-256 with prefix", ["0x" + "ab" * 24 + "0123456789abcdef"], [(0x0123456789ABCDEF,)]),
    hashed("65 bits", ["1" + "0" * 16], [(0,)]),
    hashed("too few", ["ff"], [("own", "own")], [A, B]),
    hashed("too many", ["ff", "fe"], [("own",)]),
    *(hashed(f"one malformed {text!r}", [text, "ff"], [("own", 255)], [A, B])
      for text in ("xyz", "", "0x", "0X10", "1_0", "+10", " 10 ")),
    hashed("empty", [], [("own",)]),
    hashed("null", None, [("own",)]),
    hashed("string", "ff", 400),
    hashed("numbers", [255], 400),
    hashed("list of null", [None], 400),
    hashed("object", {}, 400),
    hashed("nested", [["ff"]], 400),
    hashed("without an image", ["ff"], [()], None),
    two("hashes, flat", 400, of="hashes", mm_hashes=["ff", "fe"]),
    two("hashes, empty", [(), ()], of="hashes", mm_hashes=[]),
    two("hashes, null", [(), ()], of="hashes", mm_hashes=None),
    two("hashes, nested", 400, [(255,), (254,)], Why.HASHES_OF_A_BATCH, of="hashes",
        image_data=[A, B], mm_hashes=[["ff"], ["fe"]]),
    Row("hashes of a batch of one", {"text": ["x"], "image_data": [A], "mm_hashes": ["ff"]}, 400, of="hashes"),
]  # fmt: skip


def extended(name: str, value: Any, seen: Any, *difference: Any, strict: bool = False) -> Row:
    body = {"text": ["x", "y"], "multimodal_x": value}
    return Row(f"extension {name}", body, seen, *difference, of="extensions", limits=Limits(strict_extensions=strict))


EXTENSIONS = [
    *(Row(f"extension of one {value!r}", {"text": "x", "multimodal_x": value}, [{"multimodal_x": value}],
          of="extensions") for value in ({"a": 1}, "s", [1, 2], [], [None], False, 0)),
    Row("extension of one null", {"text": "x", "multimodal_x": None}, [{}], of="extensions"),
    extended("by position", [1, 2], [{"multimodal_x": 1}, {"multimodal_x": 2}]),
    extended("lists by position", [[1], [2]], [{"multimodal_x": [1]}, {"multimodal_x": [2]}]),
    extended("empty list", [], [{"multimodal_x": []}] * 2),
    extended("null", None, [{}, {}]),
    extended("too short", [1], 400),
    extended("too long", [1, 2, 3], 400),
    extended("null for one", [None, 1], [{"multimodal_x": None}, {"multimodal_x": 1}], [{}, {"multimodal_x": 1}],
             Why.NULL_EXTENSION),
    *(extended(f"for all {value!r}", value, 400, [{"multimodal_x": value}] * 2, Why.BROADCAST)
      for value in (5, "s", False, {"a": 1})),
    *(extended(f"for all {value!r}, strictly", value, 400, strict=True) for value in (5, "s", False, {"a": 1})),
]  # fmt: skip

ROWS = [*SINGLE, *BATCHES, *PROMPTS, *FIELDS, *RIDS, *SAMPLING, *HASHES, *EXTENSIONS]
