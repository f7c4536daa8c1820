"""The model packages under ``examples/``: what each is called, and how long its processor is."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True, slots=True)
class Outsider:
    """A distribution that imports ``forebay`` and is found by its entry points.

    Attributes:
        model: its model's name; folder, distribution and package are named after it.
        model_folder: the model's own folder, within the package's; a package without one brings its files in a wheel.
        is_apart: whether it needs the second environment.
    """

    model: str
    model_folder: str = ""
    is_apart: bool = False

    @property
    def distribution(self) -> str:
        return f"forebay-{self.model}"

    @property
    def package(self) -> str:
        return self.distribution.replace("-", "_")

    @property
    def folder(self) -> Path:
        return EXAMPLES / self.model.replace("-", "_")

    @property
    def sources(self) -> list[Path]:
        """The files of its package."""
        return sorted((self.folder / "src" / self.package).glob("*.py"))


OUTSIDERS = (
    Outsider("efficientnet-lite0"),
    Outsider("layout-demo", model_folder="model"),
    Outsider("whisper-tiny-en"),
    Outsider("pixtral", is_apart=True),
)


def lines_of_code(source: str) -> int:
    """Lines that hold code: none that are blank, a comment or of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(source)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines
