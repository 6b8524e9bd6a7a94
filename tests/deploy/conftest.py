from tests.dashboard.conftest import browser, settings, site

__all__ = ["browser", "settings", "site"]
