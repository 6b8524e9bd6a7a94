"""URLs for messages and logs, without their passwords."""

import re

_USER = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^:@/?#\s]*):[^?#\s]*@", re.IGNORECASE)
_PARAMETER = re.compile(r"(?i)([?&;][^=&;]*(?:password|secret|token|key)[^=&;]*=)[^&;#\s]+")


def mask_url(text: str) -> str:
    """Replaces passwords before `@` and in parameters; text around URLs stays."""
    return _PARAMETER.sub(r"\1…", _USER.sub(r"\g<scheme>\g<user>:…@", text))
