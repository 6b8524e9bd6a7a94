"""Finds an installed Chromium."""

import importlib.util
import shutil
from pathlib import Path

from opilio.bot.errors import Misconfigured

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_browser(path: str | None = None) -> str | None:
    """The given Chromium, or an installed one; None if there is none, or no Playwright."""
    if importlib.util.find_spec("playwright") is None:
        return None
    if path is not None:
        return _program(path)
    return next((found for name in (*_NAMES, _MAC) if (found := _program(name))), None)


def required_browser(path: str | None = None) -> str:
    """Like `find_browser`, but raises `Misconfigured` with what to do."""
    if (found := find_browser(path)) is not None:
        return found
    if importlib.util.find_spec("playwright") is None:
        raise Misconfigured("Playwright is missing: pip install 'opilio[bot,browser]'")
    where = f"at {path}" if path else "on this machine"
    raise Misconfigured(f"no Chromium found {where}; install it, or give its path with --browser PATH")


def _program(name: str) -> str | None:
    return shutil.which(name) or (name if Path(name).is_file() else None)
