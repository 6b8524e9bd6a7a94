"""`opilio`, and `python -m opilio`."""

import sys
from importlib.util import find_spec

from opilio.cli.extras import missing


def main() -> None:
    if find_spec("typer") is None:
        sys.exit(missing([word for word in sys.argv[1:] if not word.startswith("-")]))
    # Whoever reads a pipe sees each line when it is written: `opilio up --json` writes one and runs on.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    from opilio.cli.app import run  # noqa: PLC0415 - the light install has no Typer

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
