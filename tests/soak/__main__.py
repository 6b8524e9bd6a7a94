"""`SOAK_MINUTES=5 make soak`; exits with 1 when anything was lost, doubled or grew."""

import asyncio
import os
import random
import sys
import time

import httpx2

from tests.delivery.receiver import Receiver
from tests.soak import audit, load
from tests.soak.system import System, running

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
SEED = int(os.environ.get("SOAK_SEED", "0")) or random.randrange(1, 10**6)
_SETTLE_SECONDS = 300.0


async def soak() -> int:
    say(f"soak of {MINUTES:g} minutes, SOAK_SEED={SEED}")
    async with Receiver() as receiver, running() as system:
        receiver.usual = load.sometimes_failing
        work = await load.prepare(system, receiver)
        stop = asyncio.Event()
        watching = asyncio.create_task(system.watch_memory())
        talking = asyncio.create_task(tell(system, work, receiver))
        loads = [
            asyncio.create_task(load.run_bots(system, work, stop)),
            asyncio.create_task(load.create_projects(system, work, stop)),
        ]
        await ready(system)
        await load.storm(system, MINUTES * 60, random.Random(SEED))
        stop.set()
        say("the storm is over; waiting until everything is done")
        await asyncio.gather(*loads)
        await system.roles["scheduler"].stop()  # no new jobs: the events come to an end
        left = await audit.settled(system, _SETTLE_SECONDS)
        watching.cancel()
        talking.cancel()
        await system.stop_roles()
        faults = [*left, *await audit.faults_of(system, work, receiver.got)]
        faults += audit.memory_faults(system.memory)
        report(system, work, receiver, faults)
        system.keep_logs = bool(faults)
        if faults:
            say(f"the logs of the roles are in {system.folder}")
    return 1 if faults else 0


async def ready(system: System) -> None:
    """The first start of all processes at once takes a while on a small machine."""
    async with asyncio.timeout(120), httpx2.AsyncClient(base_url=system.url) as client:
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx2.TransportError:
                await asyncio.sleep(0.2)


async def tell(system: System, work: load.Work, receiver: Receiver) -> None:
    began = time.monotonic()
    while True:
        await asyncio.sleep(30)
        say(
            f"{(time.monotonic() - began) / 60:.1f} min: {len(work.done)} jobs done, {len(work.projects)} projects, "
            f"{len(receiver.got)} webhooks, {sum(system.faults.values())} faults"
        )


def report(system: System, work: load.Work, receiver: Receiver, faults: list[str]) -> None:
    answers = ", ".join(f"{count} × {status}" for status, count in sorted(work.statuses.items()))
    say(f"jobs done and answered   {len(work.done)}")
    say(f"answers                  {answers}; {work.no_answer} without an answer")
    say(f"projects                 {len(work.projects)}")
    say(f"webhooks                 {len(receiver.got)}, of them repeated {audit.repeated(receiver.got)}")
    for name, count in sorted(system.faults.items()):
        say(f"fault                    {name}: {count}")
    for name, (before, after) in sorted(audit.memory_by_role(system.memory).items()):
        say(
            f"memory                   {name}: {before:.0f} → {after:.0f} MiB, {system.roles[name].starts} starts"
        )
    for fault in faults:
        say(f"FAULT                    {fault}")
    say("nothing lost, nothing doubled, memory flat" if not faults else f"{len(faults)} faults")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(soak()))
