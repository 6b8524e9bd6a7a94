"""Brings Mermaid into the documentation, so that its pages draw diagrams without a CDN; run by `make docs`."""

import subprocess
import tarfile
import tempfile
from pathlib import Path

from build import npm

VERSION = "11.12.0"
TARGET = Path(__file__).parents[1] / "docs/assets/mermaid.min.js"


def main() -> None:
    if TARGET.exists() and VERSION in TARGET.with_suffix(".version").read_text(encoding="utf-8"):
        return
    with tempfile.TemporaryDirectory() as folder:
        # The package alone: the file that browsers load holds all that it needs.
        subprocess.run(
            [*npm(), "pack", "--silent", f"mermaid@{VERSION}"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as package:
            content = package.extractfile("package/dist/mermaid.min.js")
            assert content is not None
            TARGET.parent.mkdir(exist_ok=True)
            TARGET.write_bytes(content.read())
    TARGET.with_suffix(".version").write_text(VERSION, encoding="utf-8")


if __name__ == "__main__":
    main()
