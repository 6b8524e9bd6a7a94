"""Loggers of all modules: structlog, loaded without the libraries that it would load for renderers that nobody uses here."""

import importlib
import sys
from types import ModuleType
from typing import Any

# Wherever these are installed structlog imports them, which takes longer than all the rest of it.
_UNUSED = ("rich", "twisted")


def _load_structlog() -> ModuleType:
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]
    loaded = {name: modules.get(name) for name in _UNUSED}
    modules.update(dict.fromkeys(_UNUSED))  # an import of None fails
    try:
        return importlib.import_module("structlog")
    finally:
        for name, module in loaded.items():
            if module is None:
                del modules[name]
            else:
                modules[name] = module


structlog = _load_structlog()


def get_logger(name: str) -> Any:
    """A structured logger: the first argument of its methods names the event, keywords are its values."""
    return structlog.get_logger(name)
