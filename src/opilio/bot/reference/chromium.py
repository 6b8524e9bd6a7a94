"""Where the installed Chromium is."""

import shutil
from pathlib import Path

from opilio.bot.errors import Misconfigured

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_browser(path: str | None = None) -> str:
    """The given browser, or one that is installed; `Misconfigured` if there is none."""
    candidates = [path] if path else [*_NAMES, _MAC]
    for candidate in candidates:
        if found := shutil.which(candidate):
            return found
        if Path(candidate).is_file():
            return candidate
    raise Misconfigured("no Chromium was found; install one, or name it with --browser PATH")
