"""What codecs say to the standard error of the process, about files of strangers, is kept out of its log."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_STDERR = 2


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing reaches the standard error meanwhile: libtiff and mpg123 write there and cannot be told not to.

    Nor does a warning of Python's: Pillow has some about damaged Exif, and goes on. A worker's child decodes on the one
    thread that it has, so nobody else's words are lost.
    """
    with warnings.catch_warnings(), _closed():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _closed() -> Iterator[None]:
    try:
        kept = os.dup(_STDERR)
    except OSError:  # a process may have none; then nothing can be printed either
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
