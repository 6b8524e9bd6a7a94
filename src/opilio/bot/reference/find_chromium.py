"""Where the installed Chromium is."""

import importlib.util
import shutil
from pathlib import Path

from opilio.bot.errors import Misconfigured

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_browser(path: str | None = None) -> str | None:
    """The given Chromium, or one that is installed; None where there is none, or no Playwright to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    if path is not None:
        return _program(path)
    return next((found for name in (*_NAMES, _MAC) if (found := _program(name))), None)


def required_browser(path: str | None = None) -> str:
    """As `find_browser`, but `Misconfigured` with what to do about it."""
    if (found := find_browser(path)) is not None:
        return found
    if importlib.util.find_spec("playwright") is None:
        raise Misconfigured("Playwright is missing: pip install 'opilio[bot,browser]'")
    where = f"at {path}" if path else "on this machine"
    raise Misconfigured(f"there is no Chromium {where}; install one, or name it with --browser PATH")


def _program(name: str) -> str | None:
    return shutil.which(name) or (name if Path(name).is_file() else None)
