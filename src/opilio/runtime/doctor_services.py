"""What `opilio doctor` checks about RabbitMQ, Redis and object storage."""

import asyncio
from importlib import import_module
from uuid import uuid4

from opilio.runtime.dependencies import PATIENCE, Dependency, dependencies, fault_of
from opilio.runtime.finding import Finding
from opilio.runtime.service_faults import Fault, one_line, storage_fault
from opilio.runtime.setting_sources import shown
from opilio.runtime.settings import Settings

_MOST_QUEUES = 5


async def examine_services(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    for dependency in dependencies(settings):
        finding = await _reach(dependency)
        found.append(finding)
        if finding.verdict == "ok" and dependency.key == "broker":
            found += await _queues(settings, dependency.url)
    return found


async def _reach(dependency: Dependency) -> Finding:
    where, fault = shown(dependency.url), await fault_of(dependency)
    if fault is None and dependency.key == "storage":
        fault = await _write(dependency.url)
    if fault is not None:
        return Finding(dependency.name, "fault", f"{where}: {fault.said}", fault.remedy)
    return Finding(dependency.name, "ok", f"{where} answers")


async def _write(url: str) -> Fault | None:
    """Reading may be allowed where writing is not: writes an object and deletes it."""
    from opilio.adapters.blobs import open_store  # noqa: PLC0415

    obstore, key = import_module("obstore"), f"opilio-doctor/{uuid4()}"
    try:
        async with asyncio.timeout(PATIENCE):
            store = open_store(url, retries=1)
            await obstore.put_async(store, key, b"written by opilio doctor")
            await obstore.delete_async(store, key)
    except TimeoutError:
        return Fault(f"an object is not written within {PATIENCE:.0f} s", "look at the storage's log")
    except Exception as error:  # noqa: BLE001 - whatever a library raises, it means the same here
        return storage_fault(error, url)
    return None


async def _queues(settings: Settings, url: str) -> list[Finding]:
    from opilio.rabbitmq.declare import Declaration  # noqa: PLC0415

    connection = await import_module("aio_pika").connect(url, timeout=PATIENCE)
    try:
        differences = await Declaration(connection).differences(settings.topology)
    finally:
        await connection.close()
    if not differences:
        return [Finding("queues", "ok", "every queue that exists has the arguments that Opilio declares")]
    return [
        Finding(
            "queues",
            "warning",
            f"{one_line(difference.said)} ({difference.messages} messages in it)",
            f"Opilio uses it as it is; to change it, stop all roles, empty it, run `rabbitmqctl delete_queue "
            f"{difference.queue}`, and start the roles, which declare it",
        )
        for difference in differences[:_MOST_QUEUES]
    ]
