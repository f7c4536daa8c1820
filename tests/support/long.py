"""How much is tried: a sample that takes seconds, or with ``FOREBAY_LONG_TESTS=1`` everything."""

from __future__ import annotations

import os

import pytest

LONG = os.environ.get("FOREBAY_LONG_TESTS") == "1"

only_long = pytest.mark.skipif(not LONG, reason="in the long form alone: make test-long")
