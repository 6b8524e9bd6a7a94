"""The code of the revision before: the newest commit whose newest revision of the schema precedes today's."""

import io
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from opilio.adapters.postgres import migrate

ROOT = Path(__file__).parents[2]
VERSIONS = "src/opilio/migrations/versions"
VENDOR = "src/opilio/web/static/vendor"
_LINE = re.compile(r'^[^:]+:(?P<file>[^:]+):(?P<what>revision|down_revision) = "(?P<number>\d+)"')


def git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise OSError(done.stderr.decode())
    return done.stdout


def heads(commit: str) -> set[str]:
    """The newest revisions at a commit: one, unless two branches met there."""
    found: dict[str, dict[str, str]] = {"revision": {}, "down_revision": {}}
    listed = git("grep", "-E", r'^(down_)?revision = "', commit, "--", f"{VERSIONS}/v*.py").decode()
    for line in listed.splitlines():
        if match := _LINE.match(line):
            found[match["what"]][match["file"]] = match["number"]
    return set(found["revision"].values()) - set(found["down_revision"].values())


def previous_commit() -> str | None:
    """Only commits that touch revisions change the head, so the commit sought is the parent of one of them."""
    wanted = {migrate.revisions()[-2]}
    for commit in ("HEAD^0", *git("log", "--format=%H^", "--", VERSIONS).decode().split()):
        if heads(commit) == wanted:
            return commit
    return None


def unpack_previous(folder: Path) -> Path:
    """Its `src`, ready to be put on PYTHONPATH; skips where there is no history, as in a source distribution."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed: the code of the revision before is read from the history")
    try:
        commit = previous_commit()
    except OSError as error:
        pytest.skip(f"no history of the code of the revision before (shallow clone or no clone): {error}")
    if commit is None:
        pytest.skip(f"no commit in this history whose newest revision is {migrate.revisions()[-2]}")
    with zipfile.ZipFile(io.BytesIO(git("archive", "--format=zip", commit, "src"))) as archive:
        archive.extractall(folder)
    if not (folder / VENDOR).exists():  # built, never committed
        (folder / VENDOR).symlink_to(ROOT / VENDOR)
    return folder / "src"
