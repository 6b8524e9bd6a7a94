"""Who sends a request, and what they may do."""

from dataclasses import dataclass

from opilio.errors import Refused

SCOPES = ("read", "write", "admin")
SCOPE_OF_ROLE = {"viewer": "read", "operator": "write", "admin": "admin"}


@dataclass(frozen=True, slots=True)
class Bot:
    bot_id: str

    def must_be(self, bot_id: str) -> None:
        if bot_id != self.bot_id:
            raise Refused(
                "forbidden",
                "this token belongs to the bot %(owner)s; it cannot be used for %(bot_id)s",
                {"bot_id": self.bot_id},  # a bot that has only a token learns its id from here
                owner=self.bot_id,
                bot_id=bot_id,
            )


@dataclass(frozen=True, slots=True)
class Operator:
    """A person with a session, or a program with an API key."""

    actor: str
    scope: str
    csrf_token: str | None = None

    def must_have(self, scope: str) -> None:
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise Refused(
                "forbidden",
                "this needs the scope %(scope)s; %(actor)s has the scope %(has)s",
                scope=scope,
                actor=self.actor,
                has=self.scope,
            )
