"""A fork of pytest's own process, for children that use little and leave by ``os._exit``."""

from __future__ import annotations

import os
import warnings


def fork() -> int:
    """As ``os.fork``. From Python 3.12 it warns of other threads; our children wait for none of their locks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
