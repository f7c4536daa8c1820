"""``file:`` URLs: only regular files below a root that the deployment names, and nothing is told of any other."""

import os

import pytest

from api.fetch.budget import Budget
from api.fetch.files import read_file
from forebay.errors import Rejected


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a b.png").write_bytes(b"picture")
    (root / "sub" / "c.png").write_bytes(b"deeper")
    (root / os.fsdecode(b"\xffx")).write_bytes(b"odd")
    (root / "ü").write_bytes(b"ue")
    (tmp_path / "outside.png").write_bytes(b"secret")
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    (root / "linked").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


def read(root, url, limit=100):
    return read_file(url, "image_data", [root], Budget(limit, limit))


@pytest.mark.parametrize(
    ("path", "data"),
    [("a%20b.png", b"picture"), ("a b.png", b"picture"), ("sub/c.png", b"deeper"), ("%FFx", b"odd"), ("ü", b"ue")],
)
def test_a_file_below_the_root_is_read(root, path, data):
    """With its name spelled as URLs spell it."""
    assert read(root, f"file://{root}/{path}") == data
    assert read(root, f"file://localhost{root}/{path}") == data


def test_every_other_path_sounds_alike(root, tmp_path):
    """C084: links, pipes, folders, escapes, hosts, what is there and what is not: nobody finds out which it was."""
    paths = [
        f"{root}/nothing.png", f"{root}/../outside.png", f"{root}/%2e%2e/outside.png", f"{root}/sub/../a%20b.png",
        f"{root}/link.png", f"{root}/linked/outside.png", f"{root}/pipe", f"{root}/sub", f"{root}", f"{root}/",
        f"{tmp_path}/outside.png", "/etc/passwd", f"{root}//a%20b.png", f"{root}/a%20b.png%00", "", "relative.png",
        f"{root}x/a.png", "/dev/zero", "[x/y", f"{root}/\ud800", f"{root}/\udcff", f"{root}/a%20b.p\nng",
        f"{root}/\x00", f"{root}/{'a' * 300}", f"{root}/{'a/' * 9000}", "/" + "a" * 1_000_000,
    ]  # fmt: skip
    urls = [f"file://{path}" for path in paths] + [f"file://elsewhere{root}/a%20b.png", f"file:{root}/../x"]
    told = set()
    for url in urls:
        with pytest.raises(Rejected) as caught:
            read(root, url)
        told.add((caught.value.code, caught.value.message))

    assert told == {("media_unavailable", "image_data: no such file may be read")}


def test_without_a_root_nothing_is_read(root):
    """C084: off unless the deployment says otherwise."""
    with pytest.raises(Rejected) as caught:
        read_file(f"file://{root}/a%20b.png", "image_data", [], Budget(100, 100))

    assert caught.value.code == "unsupported_source"


def test_a_file_that_is_too_large_is_refused_by_its_size(root):
    """With both numbers; there it is known that the file may be read."""
    with pytest.raises(Rejected, match="at least 7 bytes; the limit is 6"):
        read(root, f"file://{root}/a%20b.png", limit=6)


def test_no_descriptor_is_left_open(root):
    """Whatever was asked for."""
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a%20b.png", "sub/c.png", "link.png", "pipe", "sub", "nothing"):
        for _ in range(5):
            try:
                read(root, f"file://{root}/{path}")
            except Rejected:
                continue

    assert len(os.listdir("/proc/self/fd")) == before
