"""The roles of a process; each is a module with `async def serve(opilio, stop)`."""

from importlib.util import find_spec

ROLES = {
    "api": "opilio.runtime.roles.api",
    "scheduler": "opilio.runtime.roles.scheduler",
    "delivery": "opilio.runtime.roles.delivery",
    "collector": "opilio.runtime.roles.collector",
    "analytics": "opilio.runtime.roles.analytics",
}


def available() -> list[str]:
    """The roles that this installation has."""
    return [role for role, module in ROLES.items() if find_spec(module) is not None]
