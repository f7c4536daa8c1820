"""What docs/engines.md shows is run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.media import plain_png
from tests.support.node import SECRET, made_node
from tests.support.ways import MODEL, NODE

pytestmark = pytest.mark.service

DOC = Path(__file__).parents[2] / "docs" / "engines.md"


def test_the_loop_of_the_document_answers_a_request(client, moves, shm, tmp_path, redis_url):
    """Poll, map, release, end: the caller's record has the answer, and the pool is empty."""
    code = re.search(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)[1]
    with made_node(client, moves, shm, tmp_path) as node:
        node.driver().run(node.task(node.reference(plain_png(2, 3))))
        env = {
            **os.environ,
            "REDIS_URL": redis_url,
            "FOREBAY_SECRET": SECRET.decode(),
            "FOREBAY_DEPLOYMENT": moves.keys.prefix.removesuffix(":"),
            "FOREBAY_NODE": NODE,
            "FOREBAY_RUN_DIR": str(shm),
            "FOREBAY_MODEL": MODEL,
        }
        process = subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(600):
                if node.way.state() == "done" or process.poll() is not None:
                    break
                time.sleep(0.1)
        finally:
            process.kill()
            said = process.communicate()[1]

        assert node.way.state() == "done", said
        output = {"text": "4 tokens, 3 feature rows", "completion_tokens": 1, "finish_reason": "stop", "meta": {}}
        assert node.way.record().result == {"prompt_tokens": 4, "outputs": [output]}
        assert node.pool.blocks() == []
