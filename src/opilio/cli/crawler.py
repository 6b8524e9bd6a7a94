"""`opilio crawler`: simulated platforms, and conformance checks of crawlers."""

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.context import open_database, run_async, settings
from opilio.cli.option_types import seconds
from opilio.cli.output import Json, JsonLines, note, print_json, print_table
from opilio.contracts.topology import LIFECYCLE, RESULTS

if TYPE_CHECKING:
    from obstore.store import ObjectStore

    from opilio.contracts.collector import CrawlerResult, CrawlTask
    from opilio.crawler.simulator import Faults

app = typer.Typer(
    no_args_is_help=True, help="Simulate crawlers, and check that a crawler follows the contract."
)
Amqp = Annotated[
    str | None,
    typer.Option(
        "--amqp-url", envvar="OPILIO_AMQP_URL", help="RabbitMQ; without it the embedded bus is used."
    ),
]


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        "--patience",
        parser=seconds,
        metavar="DURATION",
        help="How long to wait for each answer.",
    ),
]
ResultsExchange = Annotated[
    str,
    typer.Option(envvar="OPILIO_EXCHANGE_RESULTS", help="The exchange that the crawler sends results to."),
]
LifecycleExchange = Annotated[
    str, typer.Option(envvar="OPILIO_EXCHANGE_LIFECYCLE", help="The exchange of data.collected.")
]


@app.command()
def simulate(
    platform: Annotated[
        list[str] | None,
        typer.Option(
            help="A platform to simulate; repeat the option for several. Default: tiktok and youtube."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same posts and the same faults.")] = 7,
    calm: Annotated[bool, typer.Option("--calm", help="No faults, delays or repeated results.")] = False,
    at_once: Annotated[int, typer.Option(min=1, max=100, help="Tasks crawled concurrently.")] = 4,
    seconds_per_post: Annotated[
        float | None, typer.Option(min=0.0, help="How long a post takes; default 0.02, with --calm 0.")
    ] = None,
    amqp_url: Amqp = None,
    as_json: JsonLines = False,
) -> None:
    """Answer tasks with generated posts, as a real crawler would, until Ctrl-C."""
    from opilio.crawler.simulator import NO_FAULTS, Faults

    faults = NO_FAULTS if calm else Faults()
    if seconds_per_post is not None:
        faults = replace(faults, seconds_per_post=seconds_per_post)
    run_async(_simulate(platform or ["tiktok", "youtube"], seed, faults, at_once, amqp_url, as_json))


async def _simulate(
    platforms: list[str], seed: int, faults: "Faults", at_once: int, amqp_url: str | None, as_json: bool
) -> None:
    from opilio.adapters.buckets import Buckets, crawl_bucket
    from opilio.crawler.simulator import Platform, SimulatedCrawler

    class PrintingCrawler(SimulatedCrawler):
        """Prints each result."""

        async def crawl(self, task: "CrawlTask") -> "CrawlerResult":
            result = await super().crawl(task)
            _print_result(task, result, as_json)
            return result

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    current = settings()
    async with AsyncExitStack() as stack:
        link = await _link(stack, amqp_url or current.amqp_url, platforms)
        store: ObjectStore = Buckets(current.blobs).store(crawl_bucket(current.blobs))
        note(f"simulating {', '.join(platforms)} with seed {seed}; Ctrl-C ends it")
        crawlers = [
            PrintingCrawler(
                Platform(name, seed),
                link,
                store,
                faults=faults,
                bucket=crawl_bucket(current.blobs),
                at_once=at_once,
                results=current.exchange_results,
                lifecycle=current.exchange_lifecycle,
            )
            for name in platforms
        ]
        await asyncio.gather(*(crawler.run(stop) for crawler in crawlers))


async def _link(stack: AsyncExitStack, amqp_url: str | None, platforms: list[str]) -> Any:
    """RabbitMQ if it is configured, else the embedded bus of the data directory."""
    if amqp_url is not None:
        from opilio.crawler import AmqpLink

        link = await AmqpLink.connect(amqp_url)
        stack.push_async_callback(link.close)
        return link
    from opilio.adapters.local_bus import LocalBus

    current = settings()
    known = dict.fromkeys([*current.platforms, *platforms])
    database = await stack.enter_async_context(open_database())
    bus = await LocalBus.connect(database, current.with_values(platforms=tuple(known)).topology)
    stack.push_async_callback(bus.close)
    return bus


def _print_result(task: "CrawlTask", result: "CrawlerResult", as_json: bool) -> None:
    line = {
        "platform": task.platform,
        "job_id": task.job_id,
        "attempt": task.attempt,
        "success": result.success,
    }
    line |= {"stats": result.stats, "error": result.error}
    if as_json:
        print_json(line)
        return
    assert result.stats is not None
    outcome = (
        f"{result.stats.successful} posts, {result.stats.failed} failed"
        if result.success
        else f"{result.error}"
    )
    print(f"{task.platform:<8} {task.job_id} (attempt {task.attempt}): {outcome}", flush=True)


@app.command()
def check(
    platform: Annotated[str, typer.Option(help="The platform that the crawler serves.")],
    amqp_url: Annotated[
        str,
        typer.Option(
            "--amqp-url",
            envvar="OPILIO_AMQP_URL",
            help="The RabbitMQ server that the crawler is connected to.",
        ),
    ],
    keyword: Annotated[str, typer.Option(help="A keyword that the platform has posts for.")] = "iphone",
    timeout: Timeout = "2m",  # type: ignore[assignment]
    blobs_url: Annotated[
        str | None,
        typer.Option(
            "--blobs-url",
            envvar="OPILIO_BLOBS_URL",
            help="Where the crawler puts its batches: s3://bucket?endpoint=… or file:///folder.",
        ),
    ] = None,
    exchange_results: ResultsExchange = RESULTS,
    exchange_lifecycle: LifecycleExchange = LIFECYCLE,
    as_json: Json = False,
) -> None:
    """Send tasks to a running crawler and list every rule of the contract that it breaks."""
    from opilio.adapters.buckets import Buckets, crawl_bucket
    from opilio.crawler.conformance import ConformanceCheck

    if blobs_url is None:
        raise typer.BadParameter(
            "say where the crawler puts its batches: --blobs-url or OPILIO_BLOBS_URL, for example s3://bucket?endpoint=…"
        )

    async def work() -> Any:
        store = Buckets(blobs_url).store(crawl_bucket(blobs_url))
        kit = ConformanceCheck(
            amqp_url,
            platform,
            store=store,
            timeout_seconds=timeout,
            results=exchange_results,
            lifecycle=exchange_lifecycle,
        )
        return await kit.run(keyword)

    violations = run_async(work())
    if as_json:
        print_json(violations)
    else:
        print_table(
            ("rule", "task", "what"), [(v.rule, v.task, v.what) for v in violations], "all rules are followed"
        )
    if violations:
        raise typer.Exit(1)
