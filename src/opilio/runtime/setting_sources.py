"""Where the value of each setting comes from."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opilio.runtime.settings import Settings

_PREFIX, _FILE = "OPILIO_", "opilio.toml"
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):([^@/]+)@")
_SECRET = re.compile(r"(?i)((?:secret|password|token|key)[^=&]*=)[^&]+")


@dataclass(frozen=True, slots=True)
class Origin:
    """A setting, its value without secrets, and where it was set."""

    name: str
    value: Any
    source: str
    meaning: str


def origins(settings: Settings) -> list[Origin]:
    in_file = _names_in_file()
    return [
        Origin(name, shown(getattr(settings, name)), _source(name, in_file), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def _source(name: str, in_file: set[str]) -> str:
    variable = f"{_PREFIX}{name.upper()}"
    if any(key.upper() == variable for key in os.environ):
        return variable
    return _FILE if name in in_file else "default"


def _names_in_file() -> set[str]:
    import tomllib  # noqa: PLC0415

    path = Path(_FILE)
    return set(tomllib.loads(path.read_text(encoding="utf-8"))) if path.exists() else set()


def shown(value: Any) -> Any:
    """A value with its passwords masked."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return _SECRET.sub(r"\1…", _PASSWORD.sub(r"\1:…@", value))
    return value
