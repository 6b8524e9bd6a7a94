"""Who speaks, and what that lets them do."""

from dataclasses import dataclass

from opilio.errors import Refused

SCOPES = ("read", "write", "admin")
SCOPE_OF_ROLE = {"viewer": "read", "operator": "write", "admin": "admin"}


@dataclass(frozen=True, slots=True)
class Bot:
    bot_id: str

    def must_be(self, bot_id: str) -> None:
        if bot_id != self.bot_id:
            message = f"this token belongs to the bot {self.bot_id}; it cannot speak for {bot_id}"
            # A bot that was given a token alone learns its name from here.
            raise Refused("forbidden", message, {"bot_id": self.bot_id})


@dataclass(frozen=True, slots=True)
class Operator:
    """A person with a session, or a program with an API key."""

    actor: str
    scope: str
    csrf_token: str | None = None

    def must_have(self, scope: str) -> None:
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise Refused("forbidden", f"this needs the scope {scope}; {self.actor} has {self.scope}")
