"""Every exchange, queue and binding, as data: RabbitMQ declares them, the local bus keeps them in tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

EVENTS = "crawl.events"
INBOUND = "collector.inbound"
RESULTS = "collector.results"
LIFECYCLE = "smap.events"
DEAD_LETTERS = "opilio.dead-letters"

INBOUND_QUEUE = "collector.inbound"
RESULTS_QUEUE = "collector.results"
COLLECTED_QUEUE = "analytics.data.collected"
DEAD_LETTER_INDEX = "opilio.dead-letters.index"
COLLECTED_FORMATS = ("event", "legacy", "inline")

PLATFORMS = ("tiktok", "youtube")
# Waiting messages stand in a delay queue by the length of their wait, so that none stands behind a longer one.
DELAY_SECONDS = (0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21600, 86400)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A durable topic exchange."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Binding:
    exchange: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A durable queue with its delay queues, its parking queues and its dead letters."""

    name: str
    description: str
    bindings: tuple[Binding, ...] = ()
    dead_letters: bool = True
    parking: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        return self.name.removesuffix(".queue")

    @property
    def dead_letter_queue(self) -> str:
        return f"{self.base}.dlq"

    def delay_queue(self, wait: timedelta) -> str:
        """The delay queue for a wait: `<base>.retry.<n>` holds waits of up to n seconds."""
        seconds = wait.total_seconds()
        step = next((step for step in DELAY_SECONDS if seconds <= step), DELAY_SECONDS[-1])
        return f"{self.base}.retry.{step:g}"

    @property
    def delay_queues(self) -> tuple[str, ...]:
        """Every delay queue that may exist; each is declared when it is first needed."""
        return tuple(self.delay_queue(timedelta(seconds=step)) for step in DELAY_SECONDS)

    def parking_queue(self, name: str) -> str:
        """Messages of a kind that is switched off wait here."""
        return f"{self.base}.parked.{name}"


@dataclass(frozen=True, slots=True)
class Topology:
    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]

    def queue(self, name: str) -> Queue:
        for queue in self.queues:
            if queue.name == name:
                return queue
        raise KeyError(f"no queue named {name} is declared")


def task_queue(platform: str) -> Queue:
    return Queue(
        f"crawler.{platform}.queue",
        f"Tasks for the crawlers of {platform}; a retry comes back through its delay queues.",
    )


def topology(
    platforms: Iterable[str] = PLATFORMS,
    *,
    events: str = EVENTS,
    inbound: str = INBOUND,
    results: str = RESULTS,
    lifecycle: str = LIFECYCLE,
) -> Topology:
    """The whole topology; exchange names are configuration, queue names are the contract."""
    return Topology(
        exchanges=(
            Exchange(events, "What Opilio tells the application: CloudEvents, the type as routing key."),
            Exchange(inbound, "CrawlRequests in, keyed crawler.<platform>.<task_type>."),
            Exchange(results, "Results of crawlers and of analytics."),
            Exchange(lifecycle, "Lifecycle of projects and of collected data."),
            Exchange(DEAD_LETTERS, "Messages given up, keyed by the name of their dead-letter queue."),
        ),
        queues=(
            Queue(
                INBOUND_QUEUE,
                "Requests to crawl, and projects created.",
                (Binding(inbound, "crawler.#"), Binding(lifecycle, "project.created")),
            ),
            Queue(
                RESULTS_QUEUE,
                "Results of tasks and of analysed batches.",
                (Binding(results, "crawler.*.result"), Binding(results, "analytics.result")),
            ),
            Queue(
                COLLECTED_QUEUE,
                "Batches of collected items, to be analysed.",
                (Binding(lifecycle, "data.collected"),),
                parking=COLLECTED_FORMATS,
            ),
            *(task_queue(platform) for platform in platforms),
            Queue(
                DEAD_LETTER_INDEX,
                "A copy of every dead letter, for the list of dead letters.",
                (Binding(DEAD_LETTERS, "#"),),
                dead_letters=False,
            ),
        ),
    )
