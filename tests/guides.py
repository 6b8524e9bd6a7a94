"""Guides followed by the tests: each block of a page is run in a shell as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """Every block of code of a page; of a console only what is typed, without what is printed."""
    return [
        "".join(f"{line[2:]}\n" for line in body.splitlines() if line.startswith("$ "))
        if language == "console"
        else body
        for language, body in _BLOCK.findall((DOCS / page).read_text())
    ]


class Reader:
    """Types commands of a guide; values that stand for the reader's own are replaced by real ones."""

    def __init__(self, folder: Path, values: dict[str, str], *, at: Path | None = None, **env: str) -> None:
        self.folder = at or folder
        self.values = values
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.notes = folder / "notes"
        path = os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        plain = {name: value for name, value in os.environ.items() if not name.startswith("OPILIO_")}
        self.env = plain | {"PATH": path, "NO_PROXY": "*"} | env

    def stand_in(self, name: str, script: str = "") -> None:
        """A program that the machine of a test must not have run: it notes its words."""
        program = self.programs / name
        program.write_text(f'#!/bin/bash\necho "{name} $*" >> {self.notes}\n{script}\n')
        program.chmod(0o755)

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines()

    def typed(self, block: str, **more: str) -> str:
        for shown, real in (self.values | more).items():
            block = block.replace(shown, real)
        assert "…" not in block, block
        return block

    def run(self, block: str, **more: str) -> str:
        command = self.typed(block, **more)
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout
