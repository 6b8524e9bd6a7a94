"""Every exchange, queue and binding, as data: what RabbitMQ declares and the local bus keeps in tables."""

from collections.abc import Iterable
from dataclasses import dataclass

EVENTS = "crawl.events"
INBOUND = "collector.inbound"
RESULTS = "collector.results"
LIFECYCLE = "smap.events"
DEAD_LETTERS = "opilio.dead-letters"

INBOUND_QUEUE = "collector.inbound"
RESULTS_QUEUE = "collector.results"
COLLECTED_QUEUE = "analytics.data.collected"
DEAD_LETTER_INDEX = "opilio.dead-letters.index"

PLATFORMS = ("tiktok", "youtube")
RETRY_STEPS = 3


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
    """A durable queue with its delay queues and its dead letters."""

    name: str
    description: str
    bindings: tuple[Binding, ...] = ()
    retry_steps: int = RETRY_STEPS
    dead_letters: bool = True

    @property
    def base(self) -> str:
        return self.name.removesuffix(".queue")

    @property
    def dead_letter_queue(self) -> str:
        return f"{self.base}.dlq"

    def delay_queue(self, retry: int) -> str:
        """The delay queue of the n-th retry; later ones share the last."""
        return f"{self.base}.retry.{min(max(retry, 1), self.retry_steps)}"

    @property
    def delay_queues(self) -> tuple[str, ...]:
        return tuple(self.delay_queue(step) for step in range(1, self.retry_steps + 1))


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
    """The whole of it; exchange names are configuration, queue names are the contract."""
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
            ),
            *(task_queue(platform) for platform in platforms),
            Queue(
                DEAD_LETTER_INDEX,
                "A copy of every dead letter, for the list of dead letters.",
                (Binding(DEAD_LETTERS, "#"),),
                retry_steps=1,
                dead_letters=False,
            ),
        ),
    )
