"""The container image, built and run for real: on a base made here, as another user, on a root that cannot be written.

Images are built by buildah without namespaces of its own. Runtimes want control groups that not every machine lets
them have, so the image is run by the same steps that a runtime takes: mounts of its own, root read-only, chroot, user.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import psutil
import pytest

from tests.components.servers import free_port
from tests.deploy.programs import DEPLOY, need, output
from tests.packaging.environment import UV, build

ROOT = DEPLOY.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "opilio-tests"
RUN = """
set -e
mount --make-rprivate /
mount --bind "$ROOTFS" "$ROOTFS"
mount -t proc proc "$ROOTFS/proc"
mount -t tmpfs tmpfs "$ROOTFS/tmp" -o mode=1777
mount -t tmpfs shm "$ROOTFS/dev" -o mode=755
mknod -m 666 "$ROOTFS/dev/null" c 1 3
mknod -m 666 "$ROOTFS/dev/urandom" c 1 9
mkdir -m 1777 "$ROOTFS/dev/shm"
mount --bind "$DATA" "$ROOTFS/var/lib/opilio"
mount -o remount,ro,bind "$ROOTFS"
exec chroot "$ROOTFS" setpriv --reuid ${USER%:*} --regid ${USER#*:} --clear-groups --no-new-privs --bounding-set=-all \
  env -i -C "$CWD" "$@"
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may build an image without user namespaces"),
    pytest.mark.timeout(900),
]


def base() -> Path:
    """A small Debian with Python, kept between runs: half a minute of downloads otherwise."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    tar = CACHE / f"base-{suite}.tar"
    if not tar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = tar.with_suffix(f".{os.getpid()}.tar")
        output(
            need("mmdebstrap"),
            *("--mode=root", "--variant=minbase", "--include=python3,python3-venv,ca-certificates"),
            suite,
            fresh,
        )
        fresh.rename(tar)
    return tar


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    # In memory where there is enough of it: an image is tens of thousands of small files.
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and psutil.virtual_memory().available > 6 << 30
    folder = Path(tempfile.mkdtemp(prefix="opilio-image-", dir=memory if roomy else None))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def buildah(place: Path):
    program = need("buildah")
    store = ("--root", str(place / "storage"), "--runroot", str(place / "run"))
    # Copies of whole layers work where overlays are forbidden, as within a container; they are slow.
    probe = [program, *store, "--storage-driver", "overlay", "info"]
    driver = "vfs" if subprocess.run(probe, capture_output=True, check=False).returncode else "overlay"

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            [program, *store, "--storage-driver", driver, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=560,
            check=False,
        )
        assert done.returncode == 0, f"buildah {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    return run


@pytest.fixture(scope="module")
def image(buildah, place: Path) -> Iterator[SimpleNamespace]:
    """The project's Containerfile, built on a base that was made here."""
    empty = buildah("from", "scratch")
    buildah("add", "--quiet", empty, base(), "/")
    buildah("commit", "--quiet", "--rm", empty, "base")
    context = place / "context"
    context.mkdir()
    build(context / "dist")
    shutil.copy(ROOT / "requirements.lock", context)
    cache = subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    buildah(
        *("build", "--quiet", "--isolation", "chroot", "--format", "docker"),
        *("--build-arg", "BASE=localhost/base", "--build-arg", "EXTRAS=server"),
        *("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro", "--volume", f"{cache}:/var/cache/uv"),
        *("--file", DEPLOY / "container/Containerfile", "--tag", "opilio", context),
    )
    made = buildah("from", "opilio")
    config = json.loads(buildah("inspect", "--type", "image", "opilio"))["Docker"]["config"]
    yield SimpleNamespace(config=config, rootfs=Path(buildah("mount", made)))
    buildah("umount", made)


def start(image, data: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """The image's own user, folder, environment and entry point."""
    config = image.config
    env = [*config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    return subprocess.Popen(
        [need("unshare"), "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", RUN, "sh", *env, *words],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "ROOTFS": str(image.rootfs),
            "DATA": str(data),
            "CWD": config["WorkingDir"],
            "USER": config["User"],
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_image_says_how_it_is_run(image):
    config = image.config
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["opilio"]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert {"8000/tcp", "9090/tcp"} <= set(config["ExposedPorts"])


def test_it_runs_as_nobody_on_a_root_that_cannot_be_written(image, place):
    data = place / "data"
    data.mkdir()
    os.chown(data, 10001, 10001)
    port = free_port()
    process = start(
        image,
        data,
        *image.config["Entrypoint"],
        "up",
        "--no-demo",
        "--json",
        "--port",
        str(port),
        OPILIO_HOST="127.0.0.1",
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        ready = json.loads(line)
        with urlopen(ready["login_url"], timeout=30) as page:
            assert b"Opilio" in page.read()
        with urlopen(f"{ready['url']}/readyz", timeout=30) as answer:
            assert answer.status == 200
    finally:
        # As a runtime does: to the first process of the container, which is Opilio itself.
        for first in psutil.Process(process.pid).children():
            first.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    probe = "import os; print(os.getuid(), os.access('/opt', os.W_OK), os.access('/tmp', os.W_OK)); open('/opt/x', 'w')"
    out, err = start(image, data, "python", "-c", probe).communicate(timeout=60)
    assert out.split() == ["10001", "False", "True"]
    assert "Read-only file system" in err
