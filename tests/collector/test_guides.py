"""The how-to guides: their commands are run, their settings exist."""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

from opilio.runtime.settings import SETTINGS
from tests.dashboard.listening import listening

GUIDES = Path(__file__).parents[2] / "docs/how-to"


async def test_the_guide_from_nothing_to_an_export(opilio, database_url, tmp_path):
    guide = (GUIDES / "listen-to-social-media.md").read_text()
    name, body = re.search(r"<!-- file: (\S+) -->\n```json\n(.*?)```", guide, re.DOTALL).groups()
    (tmp_path / name).write_text(body)
    blocks = re.findall(r"<!-- run: listen -->\n```sh\n(.*?)```", guide, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert len(lines) == 7
    environment = os.environ | {
        "OPILIO_DATABASE_URL": database_url,
        "OPILIO_BLOBS_URL": opilio.settings.blobs,
        "OPILIO_DATA_DIR": str(tmp_path),
    }
    async with listening(opilio):
        said = {}
        for line in lines:
            program, *words = shlex.split(line)
            assert program == "opilio"
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "opilio", *words, cwd=tmp_path, env=environment,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            out, _ = await asyncio.wait_for(process.communicate(), 120)
            said[" ".join(words[:2])] = out.decode()
            assert process.returncode == 0, (line, out.decode())
    assert "trà sữa" in said["projects dry-run"]
    assert said["projects watch"].endswith("DONE\n")
    assert "nothing differed" in said["projects reconcile"]
    assert (tmp_path / "tea.csv").read_text().count("\n") > 10


def test_the_switches_of_the_guide_exist():
    guide = (GUIDES / "roll-back.md").read_text()
    for name in re.findall(r"OPILIO_([A-Z_]+)", guide):
        assert name.lower() in SETTINGS, name
