"""The texts of the source, by the same script that keeps the catalogues."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "translations_script", Path(__file__).parents[2] / "assets" / "translations.py"
)
assert _spec is not None and _spec.loader is not None  # noqa: PT018
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
texts = _module.texts
