"""Refuses to build a package whose dashboard has no assets: it would install and show bare pages."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CheckBuilt(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        if version == "editable":  # `make setup` builds the assets after it
            return
        vendor = Path(self.root) / "src/opilio/web/static/vendor"
        if not (vendor / "htmx.min.js").is_file():
            raise SystemExit("The dashboard's assets are not built: run `make dist` (or `make setup`) first.")
