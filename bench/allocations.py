"""How often Python asks for memory in a pull and in a submit, for each job."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import memray
import msgspec

from opilio.contracts.bot_api import Outcome
from opilio.crawl.pull import Pull
from opilio.crawl.submission import parse
from opilio.runtime.bootstrap import Opilio


class Count:
    """Allocations within `with`."""

    value = 0


@contextmanager
def counted() -> Iterator[Count]:
    count = Count()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "allocations"
        with memray.Tracker(file, trace_python_allocators=True):
            yield count
        for record in memray.FileReader(file).get_allocation_records():
            if not memray.AllocatorType(record.allocator).name.endswith("FREE"):
                count.value += record.n_allocations


async def allocations(opilio: Opilio, result: dict[str, Any], batch: int) -> dict[str, float]:
    """For each job of a batch: as a pull takes it, and as a submit, with its JSON, ends it."""
    for _ in range(2):  # the first fills caches
        await opilio.scheduler.create_due()
        with counted() as pull:
            answer = await opilio.dispatcher.pull(Pull("bench", batch, ("http",)))
        if answer.count != batch:
            raise RuntimeError(f"{answer.count} jobs were pulled, not {batch}")
        bodies = [
            msgspec.json.encode({"job_id": job.job_id, "lock_token": job.lock_token, **result})
            for job in answer.jobs
        ]
        with counted() as submit:
            read = [parse("bench", msgspec.json.decode(body, type=Outcome)) for body in bodies]
            replies = await opilio.dispatcher.submit(read)
        if any(reply.refusal for reply in replies):
            raise RuntimeError("a result was refused")
    return {"pull": pull.value / batch, "submit": submit.value / batch}
