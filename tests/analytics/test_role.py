"""`opilio run analytics` as production starts it: what operators switch, and what Prometheus reads."""

import httpx2
import pytest

from tests.analytics.batches import body, event, failed, post
from tests.analytics.place import open_place, put, until
from tests.components.fixtures import rabbitmq, s3  # noqa: F401
from tests.components.servers import free_port


@pytest.mark.parametrize("kind", ["local", "rabbitmq"])
async def test_a_form_that_is_switched_off_stays_in_its_queue(kind, request, s3, server_dir):  # noqa: F811
    rabbit = request.getfixturevalue("rabbitmq") if kind == "rabbitmq" else None
    await put(s3, "one.json", body(post("event")))
    events = [event("opilio/one.json", f"off-{n}", batch_index=n, content_count=1) for n in range(12)]
    async with open_place(server_dir, s3, rabbit, OPILIO_NEW_MODE_ENABLED="false") as place:
        for number in range(2):  # a restart changes nothing
            await place.start()
            inline = body(post(f"inline-{number}"))[1:-1]
            await place.wire.publish([inline] if number else [*events, inline])
            await until(lambda n=number: place.postgres.count(f"post_analytics where id = 'inline-{n}'"))
            await place.kill()
            await until(lambda: is_waiting(place, len(events)))
            if kind == "local":  # nor do many
                await place.postgres.run("update bus_message set deliveries = 50")
        assert await place.postgres.count("post_analytics where id = 'event'") == 0
        assert await place.postgres.count("dead_letter") == 0
        place.environment["OPILIO_NEW_MODE_ENABLED"] = "true"
        if kind == "local":
            await place.postgres.run("update bus_message set deliveries = 1")
        await place.start()
        await until(lambda: all_done(place, len(events)))
        await place.stop()
        assert await place.wire.waiting() == 0


async def is_waiting(place, count):
    return await place.wire.waiting() == count


async def all_done(place, count):
    return await place.postgres.count("analysed_batch where batch_key like 'tiktok/%'") == count


async def test_figures_of_all_workers_are_on_one_page(s3, server_dir):  # noqa: F811
    port = free_port()
    posts = [post(str(n)) for n in range(8)]
    await put(s3, "page.json", body(*posts, failed("x", "TIMEOUT"), failed("y", "NEW_CODE")))
    settings = {"OPILIO_METRICS_PORT": str(port), "OPILIO_ANALYTICS_WORKERS": "2"}
    async with open_place(server_dir, s3, None, **settings) as place:
        await place.start()
        await place.wire.publish([event("opilio/page.json", f"m{n}", batch_index=n) for n in range(6)])
        await until(lambda: all_done(place, 6))
        await until(lambda: seen(port, 'items_processed_total{platform="tiktok"} 60.0'))
        page = await fetched(port)
    for line in (
        'events_received_total{platform="tiktok"} 6.0',
        'errors_by_code_total{error_category="network",error_code="TIMEOUT",platform="tiktok"} 6.0',
        'errors_by_code_total{error_category="generic",error_code="OTHER",platform="tiktok"} 6.0',
        'success_rate{platform="tiktok"} 0.8',
        'error_rate{platform="tiktok"} 0.2',
        'event_processing_duration_count{platform="tiktok"} 6.0',
        'batch_fetch_duration_count{platform="tiktok"} 6.0',
    ):
        assert line in page, line


async def fetched(port):
    async with httpx2.AsyncClient() as http:
        return (await http.get(f"http://127.0.0.1:{port}/metrics")).text


async def seen(port, line):
    return line in await fetched(port)
