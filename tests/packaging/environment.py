"""Clean environments: a package as it is built, installed as a new user would install it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))


def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=280, check=False, **options
    )


def must(*words: str | Path, **options: Any) -> str:
    outcome = run(*words, **options)
    assert outcome.returncode == 0, f"{words}: {outcome.stdout}{outcome.stderr}"
    return outcome.stdout


def interpreter(version: str) -> Path | None:
    """A Python of this version that others than its owner may run first, wherever the machine has it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [Path("/usr/bin") / f"python{version}", Path("/usr/local/bin") / f"python{version}"]
    candidates += sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), reverse=True)
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        candidates.append(Path(sys.executable))
    return next(
        (path for path in candidates if path.exists() and run(path, "--version").returncode == 0), None
    )


class Environment:
    """A virtual environment with nothing in it but what a test installs."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        must(UV, "venv", "--quiet", "--python", python, folder)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def install(self, requirement: str) -> None:
        """With the versions of the lock file, so that a new release elsewhere does not fail this test."""
        constraints = ROOT / "requirements.lock"
        must(UV, "pip", "install", "--quiet", "--python", self.bin / "python", "-c", constraints, requirement)

    def packages(self) -> set[str]:
        listed = json.loads(must(UV, "pip", "list", "--format", "json", "--python", self.bin / "python"))
        return {package["name"] for package in listed}

    def opilio(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        # Nothing of this checkout: neither its folder nor its settings.
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("OPILIO_", "PYTHON"))
        }
        return run(self.bin / "opilio", *words, cwd=self.folder, env=environ, **options)

    @contextmanager
    def up(self, *words: str, user: int | None = None) -> Iterator[dict[str, Any]]:
        """`opilio up`, from its one line to its end."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8"}
        process = subprocess.Popen(
            [str(self.bin / "opilio"), "up", "--json", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environ,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield json.loads(line)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it."""
    must(
        UV,
        "build",
        "--quiet",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        folder,
        cwd=ROOT,
    )
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
