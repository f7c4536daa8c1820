"""What the documents say is what the code does."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from api.settings import ApiSettings
from forebay import Client, DType, Modality, ModelSource, Prompt, Work, __version__
from forebay.kit.package import PackageName, files_of
from forebay.metrics import COUNTED_BY_A_POOL, OF_A_POOL
from forebay.plugins import load_processor
from forebay.testing import image
from launch.settings import UpSettings
from scheduler.settings import SchedulerSettings
from tests.support.outsiders import OUTSIDERS, lines_of_code
from workers.settings import WorkerSettings
from workers.shadow.settings import ShadowSettings

ROOT = Path(__file__).parents[1]
PROCESSES = {
    "api": ApiSettings,
    "worker": WorkerSettings,
    "shadow": ShadowSettings,
    "scheduler": SchedulerSettings,
    "up": UpSettings,
}
MARKS = {
    name: re.compile(rf"(<!-- {name}:.*?-->\n)(.*?)(<!-- /{name} -->)", re.DOTALL)
    for name in ("settings", "metrics", "lines")
}


def code_blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def settings_table() -> str:
    """One row a variable: who reads it, and its default."""
    readers: dict[str, list[str]] = {}
    defaults: dict[str, dict[str, str]] = {}
    for process, cls in PROCESSES.items():
        for field in dataclasses.fields(cls):
            variable = field.metadata["variable"]
            readers.setdefault(variable, []).append(process)
            defaults.setdefault(variable, {}).setdefault(shown_default(field), process)
    rows = [f"| `{name}` | {', '.join(readers[name])} | {together(defaults[name])} |" for name in sorted(readers)]
    return "\n".join(["", "| variable | read by | default |", "|---|---|---|", *rows, "", ""])


def together(defaults: dict[str, str]) -> str:
    """One default, or the general one and those of single processes."""
    general, *others = defaults
    return "; ".join([general, *(f"{defaults[other]}: {other}" for other in others)])


def shown_default(field: dataclasses.Field) -> str:
    if field.default_factory is dataclasses.MISSING:
        return "must be set"
    if field.metadata["variable"] == "REDIS_URL" and field.default_factory() is None:
        return "starts its own"
    told = {"node": "the host's name", "workers": "one a core, at most 8", "cache_bytes": "a quarter of the pool"}
    if field.name in told:
        return told[field.name]
    value = field.default_factory()
    if field.name == "drain_s" and value is None:
        return "10 s above `FOREBAY_HARD_LIMIT_S`"
    if field.name.endswith("bytes"):
        return f"{value >> 20} MiB"
    return "none" if value in (None, ()) else f"`{value}`"


def metrics_table() -> str:
    """One row for each metric of a pool, under the name that Prometheus sees."""
    of_a_pool = [*OF_A_POOL.values(), *COUNTED_BY_A_POOL.values()]
    rows = [f"| `{one.name}{'_total' * (one.kind == 'counter')}` | {one.kind} | {one.help} |" for one in of_a_pool]
    return "\n".join(["", "| metric | kind | meaning |", "|---|---|---|", *rows, "", ""])


def lines_table() -> str:
    """How much code a processor is, the shortest first: of its own file, and of its whole package."""
    written = files_of(PackageName("my-model"))["src/my_model/processor.py"]
    counts = {"the one of the README": (lines_of_code(readme_processor()),) * 2}
    counts["what `new-processor` writes"] = (lines_of_code(written),) * 2
    for outsider in OUTSIDERS:
        of_files = {path.name: lines_of_code(path.read_text()) for path in outsider.sources}
        counts[f"`examples/{outsider.folder.name}`"] = (of_files["processor.py"], sum(of_files.values()))
    rows = [f"| {name} | {own} | {whole} |" for name, (own, whole) in sorted(counts.items(), key=lambda row: row[1])]
    return "\n".join(["", "| package | its processor | all of it |", "|---|---|---|", *rows, "", ""])


def readme_processor() -> str:
    """The smallest useful processor."""
    return next(block for block in code_blocks("README.md", "python") if "class MeanColour" in block)


def test_the_smallest_processor_has_at_most_thirty_lines():
    """Blank lines, comments and docstrings included; of the others each has its reason to be longer."""
    assert len(readme_processor().splitlines()) <= 30
    assert lines_of_code(readme_processor()) < min(
        lines_of_code((outsider.folder / "src" / outsider.package / "processor.py").read_text())
        for outsider in OUTSIDERS
    )


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('"""Docstring."""\n\n# comment\nx = 1  # with a comment\n', 1),
        ('def f(a,\n      b):\n    """Two\n    lines."""\n    return """a\nstring"""\n', 4),
        ('class A:\n    """Only this."""\n\n    x = [\n        1,\n    ]\n', 4),
    ],
)
def test_a_line_of_code_is_no_blank_comment_or_docstring(source, lines):
    """By hand-sized examples; what stands on several lines counts on each."""
    assert lines_of_code(source) == lines


@pytest.mark.parametrize(
    ("name", "document", "made"),
    [
        ("settings", "settings.md", settings_table),
        ("metrics", "pool.md", metrics_table),
        ("lines", "authors.md", lines_table),
    ],
)
def test_every_table_of_the_code_is_whole(name, document, made):
    """It is made from the code, so it cannot lie."""
    path = ROOT / "docs" / document
    expected = MARKS[name].sub(lambda match: match[1] + made() + match[3], path.read_text())

    if os.environ.get("FOREBAY_WRITE_DOCS"):
        path.write_text(expected)

    assert path.read_text() == expected


def test_the_processor_of_the_readme_passes_its_own_test(monkeypatch, tmp_path):
    """The smallest useful processor and its test work as printed, as two files side by side."""
    processor, test = (block for block in code_blocks("README.md", "python") if "MeanColour" in block)
    (tmp_path / "mean_colour.py").write_text(processor)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {}

    exec(test, namespace)
    namespace["test_mean_colour"]()


def test_the_entry_point_of_the_readme_is_toml():
    """What an author copies parses."""
    (block,) = code_blocks("README.md", "toml")

    assert tomllib.loads(block)["project"]["entry-points"]["forebay.processors"] == {
        "mean-colour": "mean_colour:MeanColour"
    }


def test_every_verb_of_the_client_is_documented():
    """A verb that nobody can find is none."""
    text = (ROOT / "docs" / "client.md").read_text()
    verbs = [name for name in vars(Client) if not name.startswith("_") and name != "close"]

    assert [verb for verb in verbs if f"`{verb}(" not in text] == []


@pytest.mark.parametrize(
    "name",
    ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in sorted(ROOT.glob("docs/*.md")))],
)
def test_links_lead_somewhere(name: str):
    """A relative link names a file that exists."""
    path = ROOT / name
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())

    assert [link for link in links if not (path.parent / link).exists()] == []


def test_paths_named_in_the_architecture_exist():
    """A path in backticks is a path in the repository."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`([a-z_]+/[a-z_/.]*)`", text)

    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("name", "column"), [("qwen2-vl", 1), ("qwen2.5-vl", 1), ("qwen3-vl", 3)])
def test_the_sizes_of_features_are_what_is_written(name: str, column: int):
    """The table of docs/features.md, for a picture of 1280x720 pixels."""
    picture = image(np.zeros((720, 1280, 3)))
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", (ROOT / "docs/features.md").read_text(), re.MULTILINE)

    assert {dtype for dtype, _ in rows} == {DType.FLOAT32, DType.BFLOAT16, DType.UINT8}
    for dtype, cells in rows:
        processor = load_processor(ModelSource(name, feature_dtype=DType(dtype))).processor
        feature = processor.process_item(picture, Work("docs", Prompt(ids=(1,)), (picture,))).feature
        shown = [cell.strip() for cell in cells.split("|")][column - 1 : column + 1]
        assert shown == [str(list(feature.shape)), f"{feature.size_bytes:,}"]


def test_the_version_is_one():
    """The package says what its metadata says."""
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert metadata["project"]["version"] == __version__


def test_requirements_are_pinned_once():
    """A full install takes its versions from one file."""
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    names = [pin.partition("==")[0].lower().replace("_", "-") for pin in pins]

    assert all("==" in pin for pin in pins)
    assert len(names) == len(set(names))
    for required in ("celery", "redis", "msgpack", "numpy", "torch", "fastapi", "pydantic"):
        assert required in names
    assert "torch==2.13.0" in pins


def test_the_second_environment_differs_in_what_it_must():
    """examples/pixtral has an environment for the sake of its library's NumPy; whatever else both have is the same."""
    first, second = (pins_of(name) for name in ("constraints.txt", "requirements/pixtral.txt"))

    assert {name for name in second.keys() & first.keys() if second[name] != first[name]} == {"numpy"}
    assert "torch" not in second


def pins_of(name: str) -> dict[str, str]:
    """The pinned release of each package."""
    lines = (line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#"))
    return {
        package.lower().replace("_", "-"): release for package, _, release in (line.partition("==") for line in lines)
    }


def test_the_names_of_the_readme_are_exported():
    """An author imports everything from one package."""
    assert np.dtype("<f4") == DType.FLOAT32.carrier
    assert Modality.IMAGE == "image"
