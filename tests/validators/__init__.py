"""Validators from npm, installed once into this folder by their lock file."""

import importlib.util
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"


def installed() -> Path:
    """The folder with the validators' programs; `npm ci` where the lock file is newer than what is there."""
    stamp = MODULES / ".package-lock.json"
    lock = HERE / "package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        spec = importlib.util.spec_from_file_location("build", HERE.parents[1] / "assets/build.py")
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        words = [*build.npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(words, cwd=HERE, check=True, capture_output=True, timeout=280)
        stamp.touch()
    return MODULES / ".bin"
