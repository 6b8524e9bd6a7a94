"""Roles: what a process can be. Each is a module with `async def serve(opilio, stop)`."""

from importlib.util import find_spec

ROLES = {
    "api": "opilio.runtime.serving",
    "scheduler": "opilio.runtime.scheduler",
    "delivery": "opilio.runtime.delivery",
    "collector": "opilio.runtime.collector",
    "analytics": "opilio.runtime.analytics",
}


def available() -> list[str]:
    """The roles that this installation has."""
    return [role for role, module in ROLES.items() if find_spec(module) is not None]
