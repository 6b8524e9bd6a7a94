"""Where the value of each setting comes from."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opilio.net.mask_url import mask_url
from opilio.runtime.settings import SETTINGS, Settings
from opilio.runtime.settings_checks import SETTINGS_FILE, read_settings_file

_PREFIX = "OPILIO_"


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
        Origin(name, shown(getattr(settings, name)), _source(name, in_file), declared.meaning)
        for name, declared in SETTINGS.items()
    ]


def _source(name: str, in_file: set[str]) -> str:
    variable = f"{_PREFIX}{name.upper()}"
    if any(key.upper() == variable for key in os.environ):
        return variable
    return SETTINGS_FILE if name in in_file else "default"


def _names_in_file() -> set[str]:
    return set(read_settings_file())


def shown(value: Any) -> Any:
    """A value with its passwords masked."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return mask_url(value)
    return value
