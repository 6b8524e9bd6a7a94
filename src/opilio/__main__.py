"""`opilio`, and `python -m opilio`."""

import sys
from importlib.util import find_spec


def main() -> None:
    if find_spec("typer") is None:
        sys.exit("The command line needs more than the light install: pip install 'opilio[server]'")
    from opilio.cli.app import run  # noqa: PLC0415 - the light install has no Typer

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
