"""A fake control plane for tests of bots: real locks, tokens and errors, no database.

plane = FakeControlPlane()
job = plane.add("https://shop.example/1")
bot = Bot(plane.server, plane.token("my-bot"), bot_id="my-bot", transport=plane.transport)
…
await bot.serve(until_idle=True)
assert plane.job(job).status == "done"
"""

from opilio.bot.testing.fake_control_plane import FakeControlPlane
from opilio.bot.testing.fake_jobs import FakeJob

__all__ = ["FakeControlPlane", "FakeJob"]
