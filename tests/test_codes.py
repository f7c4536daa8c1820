"""The table of errors: every code that is raised stands in it, with its status, and nothing else does."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from forebay.codes import ALSO, CODES

ROOT = Path(__file__).parent.parent
ROOMS = ("api", "forebay", "handoff", "workers", "scheduler", "processors", "launch")
DEFAULTS = {"Rejected": 400, "Failed": 500}
MARKS = re.compile(r"(<!-- codes[^>]*-->\n)(.*?)(<!-- /codes -->)", re.DOTALL)


def raised() -> Iterator[tuple[str, int, str]]:
    """Code, status and place of every error that the rooms make."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                found = _error(node)
                if found:
                    yield (*found, f"{path.relative_to(ROOT)}:{node.lineno}")


def _error(node: ast.AST) -> tuple[str, int] | None:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
        return None
    name, first = node.func.id, node.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    if name in DEFAULTS:
        given = [word.value for word in node.keywords if word.arg == "status"]
        return first.value, given[0].value if given else DEFAULTS[name]
    if name == "Problem" and len(node.args) > 2:
        return first.value, node.args[2].value
    return None


def test_every_code_that_is_raised_stands_in_the_table_with_its_status():
    """One place tells what an error means."""
    wrong = [
        (code, status, place)
        for code, status, place in raised()
        if code not in CODES or status not in {CODES[code].status} | ALSO.get(code, frozenset())
    ]

    assert wrong == []


def test_every_code_of_the_table_is_raised_somewhere():
    """And nothing is promised that never comes."""
    made = {code for code, _, _ in raised()}
    text = "\n".join(
        path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.name != "codes.py"
    )

    assert [code for code in CODES if code not in made and f'"{code}"' not in text] == []


def table() -> str:
    rows = [f"| `{code}` | {one.status} | {one.meaning} | {one.remedy} |" for code, one in CODES.items()]
    return "\n".join(["\n| code | status | meaning | what you can do |", "|---|---|---|---|", *rows, "", ""])


def test_the_document_shows_the_table():
    """Made from the code, so it cannot lie."""
    path = ROOT / "docs" / "errors.md"
    text = path.read_text()
    expected = MARKS.sub(lambda match: match[1] + table() + match[3], text)
    if os.environ.get("FOREBAY_WRITE_DOCS"):
        path.write_text(expected)

    assert path.read_text() == expected
