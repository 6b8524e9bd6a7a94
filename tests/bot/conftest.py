"""What the tests of the bot share."""

import socket

import pytest

from opilio.bot import Bot, JobReport
from opilio.bot.testing import FakeControlPlane


@pytest.fixture
def plane() -> FakeControlPlane:
    return FakeControlPlane()


@pytest.fixture
def reports() -> list[JobReport]:
    return []


@pytest.fixture
def make_bot(plane, reports):
    """A bot of the fake control plane; keyword arguments go to `Bot`."""

    def make(**options) -> Bot:
        bot_id = options.pop("bot_id", "bot-1")
        token = options.pop("token", None) or plane.token("bot-1")
        return Bot(
            plane.server, token, bot_id=bot_id, transport=plane.transport, observe=reports.append, **options
        )

    return make


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
