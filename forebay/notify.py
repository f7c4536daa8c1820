"""Telling a supervisor how a process stands, in systemd's notification protocol; silent when nobody asks."""

from __future__ import annotations

import os
import socket


def notify(**facts: object) -> None:
    """Send ``READY=1``, ``STATUS=…``, ``STOPPING=1`` to the socket that the supervisor named, if any.

    A supervisor that has gone is no reason to fail.
    """
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    message = "\n".join(f"{name}={value}" for name, value in facts.items())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(message.encode(), path.replace("@", "\0", 1) if path.startswith("@") else path)
        except OSError:
            return
