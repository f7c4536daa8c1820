"""Flower on loopback: it watches the workers' task events and sees no payload, because tasks carry none."""

from __future__ import annotations

import sys

from forebay.settings import SharedSettings, load
from handoff.queue import make_app


def main() -> None:
    """Run Flower on the port given as the only argument."""
    settings = load(SharedSettings)
    make_app(settings).start(
        [
            "flower",
            "--address=127.0.0.1",
            f"--port={int(sys.argv[1])}",
            "--max_tasks=5000",
            "--purge_offline_workers=300",
            "--task_runtime_metric_buckets=0.005,0.01,0.02,0.05,0.1,0.2,0.5,1,2,5",
            "--logging=error",  # it warns of every worker that is still starting
        ]
    )


if __name__ == "__main__":
    main()
