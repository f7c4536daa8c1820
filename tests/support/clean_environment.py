"""An environment in which our own code comes from wheels alone, and packages of others from an environment there is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_CODE = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "benchmarks", "docs", "tests")
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
_WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class CleanEnvironment:
    """A virtual environment, and a folder outside the checkout where its programs run."""

    prefix: Path
    home: Path

    @property
    def python(self) -> str:
        return str(self.prefix / "bin" / "python")

    @property
    def forebay(self) -> str:
        """The command that the wheel has installed."""
        return str(self.prefix / "bin" / "forebay")

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        """What a program prints that ends well."""
        return run([*map(str, command)], cwd=cwd or self.home, env=outside())


def outside(**more: str) -> dict[str, str]:
    """The environment of a program that knows nothing of the checkout."""
    return {**os.environ, **more, "PYTHONPATH": "", "PYTHONNOUSERSITE": "1"}


def build_wheels(packages: Sequence[str], folder: Path) -> list[Path]:
    """The wheels of Forebay and of packages under ``examples/``, built from a copy: the checkout stays as it is."""
    copy, wheels = folder / "source", folder / "wheels"
    shutil.copytree(ROOT, copy, ignore=_NOT_CODE)
    projects = [copy, *(copy / "examples" / package for package in packages)]
    build = [*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels)]
    run([*build, *map(str, projects)], cwd=folder, env=outside())
    shutil.rmtree(copy)
    return sorted(wheels.glob("*.whl"))


def make_environment(folder: Path, wheels: Sequence[Path], others: Path) -> CleanEnvironment:
    """Install wheels where there is nothing else of ours.

    Args:
        folder: where; it is made.
        wheels: what is installed, without what it requires.
        others: a folder of installed packages. A plain path in a ``.pth`` file brings what lies there, and no editable
            installation: those are ``.pth`` files themselves, which Python reads in an environment's own folder alone.
    """
    prefix, home = folder / "environment", folder / "home"
    venv.create(prefix, with_pip=False, symlinks=True)
    home.mkdir()
    environment = CleanEnvironment(prefix, home)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (prefix / "lib" / version / "site-packages" / "others.pth").write_text(f"{others}\n")
    install = ["install", "--no-deps", "--no-index", "--no-compile"]
    run([*_PIP, "--python", environment.python, *install, *map(str, wheels)], cwd=folder, env=outside())
    return environment


def run(command: list[str], **options) -> str:
    """What a program prints that ends well."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
