"""Builds all objects from the settings; the only module that chooses adapters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from opilio.access.credentials import Credentials
from opilio.access.operators import Operators
from opilio.adapters.blobs import PageStore, open_store
from opilio.adapters.local_bus import LocalBus
from opilio.adapters.postgres import Database, migrate
from opilio.adapters.postgres.embedded import EmbeddedPostgres
from opilio.clock import Clock
from opilio.collector.collector import open_projects
from opilio.collector.projects import Projects
from opilio.crawl.adaptive.budget import BudgetKeeper
from opilio.crawl.adaptive.hurry import SiblingChanges
from opilio.crawl.alerts import Alerts
from opilio.crawl.dispatcher import Dispatcher
from opilio.crawl.expire import LockExpiry
from opilio.crawl.heartbeat import Heartbeats
from opilio.crawl.hosts import Hosts
from opilio.crawl.known_locks import KnownLocks
from opilio.crawl.operator_actions import OperatorActions
from opilio.crawl.policies import Policies
from opilio.crawl.pull import Puller
from opilio.crawl.retention import Retention
from opilio.crawl.schedule import Scheduler
from opilio.crawl.submit import Submitter
from opilio.delivery.dead_letters import DeadLetters
from opilio.delivery.outbox.event_log import Events
from opilio.delivery.outbox.routing import Route, to_broker, to_local_bus
from opilio.delivery.webhooks import address
from opilio.delivery.webhooks.endpoints import Webhooks
from opilio.errors import Unavailable
from opilio.insights.activity import Activity
from opilio.insights.alerts import FiredAlerts
from opilio.insights.analytics import AnalyticsInsights
from opilio.insights.crawl import CrawlInsights
from opilio.insights.dashboard import Figures, SavedViews
from opilio.insights.prices import Prices
from opilio.insights.projects import ProjectInsights
from opilio.insights.recrawl import RecrawlInsights
from opilio.insights.sorted_lists import SortedLists
from opilio.net.mask_url import mask_url
from opilio.runtime.private_files import private_directory
from opilio.runtime.processes import turns_of_workers
from opilio.runtime.readiness import Readiness
from opilio.runtime.settings import Settings

if TYPE_CHECKING:
    from opilio.rabbitmq.bus import RabbitBus


@dataclass(frozen=True, slots=True)
class Opilio:
    """Everything that the API, the command line and background work may ask of the system."""

    settings: Settings
    database: Database
    pages: PageStore
    credentials: Credentials
    operators: Operators
    policies: Policies
    alerts: Alerts
    hosts: Hosts
    scheduler: Scheduler
    budgets: BudgetKeeper
    sibling_changes: SiblingChanges
    dispatcher: Dispatcher
    puller: Puller
    submitter: Submitter
    heartbeats: Heartbeats
    lock_expiry: LockExpiry
    operator_actions: OperatorActions
    retention: Retention
    insights: CrawlInsights
    recrawl: RecrawlInsights
    webhooks: Webhooks
    events: Events
    dead_letters: DeadLetters
    projects: Projects
    project_insights: ProjectInsights
    analytics: AnalyticsInsights
    figures: Figures
    prices: Prices
    fired_alerts: FiredAlerts
    activity: Activity
    sorted_lists: SortedLists
    views: SavedViews


@asynccontextmanager
async def database_url(settings: Settings) -> AsyncIterator[str]:
    """The configured database, or the embedded server of the data directory for as long as it is needed."""
    if settings.database_url is not None:
        yield settings.database_direct_url or settings.database_url
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres")
    try:
        yield server.start()
    finally:
        server.stop()


@asynccontextmanager
async def open_opilio(
    settings: Settings, *, upgrade: bool = False, clock: Clock | None = None, name: str = "opilio"
) -> AsyncIterator[Opilio]:
    """All objects, connected to the database; `upgrade` migrates the schema first, as the embedded database always does."""
    async with database_url(settings) as url:
        if upgrade or settings.embedded:
            await migrate.upgrade(url)
        database = await Database.connect(
            url,
            pooled_url=settings.database_url if settings.database_direct_url else None,
            size=settings.database_pool_size,
            hot_size=settings.database_hot_pool_size,
            name=name,
        )
        try:
            if fault := await Readiness(database, starting=True).fault():
                raise Unavailable(f"The database {mask_url(url)} cannot be used: {fault}.")
            yield wire(settings, database, clock)
        finally:
            await database.close()


def wire(settings: Settings, database: Database, clock: Clock | None = None) -> Opilio:
    if settings.blobs_url is None:
        private_directory(settings.data_dir / "blobs")
    pages = PageStore(open_store(settings.blobs))
    fleet, rules = settings.fleet_limits, settings.rule_table
    jitter = settings.schedule_jitter
    known = KnownLocks(clock)
    puller = Puller(database, fleet=fleet, bot_cap=settings.bot_max_locked, known=known, clock=clock)
    submitter = Submitter(
        database,
        pages,
        jitter=jitter,
        tolerance=settings.change_tolerance_percent,
        known=known,
        clock=clock,
    )
    heartbeats = Heartbeats(database, known=known, clock=clock)
    expiry = LockExpiry(database, jitter=jitter, clock=clock)
    return Opilio(
        settings=settings,
        database=database,
        pages=pages,
        credentials=Credentials(database),
        operators=Operators(database),
        policies=Policies(database, allow=settings.crawl_allow, clock=clock),
        alerts=Alerts(database, clock=clock),
        hosts=Hosts(database, fleet=fleet, clock=clock),
        scheduler=Scheduler(
            database, rules=rules, fleet=fleet, fill_idle=settings.crawl_fill_idle, clock=clock
        ),
        budgets=BudgetKeeper(database, settings.budgets, fleet=fleet, clock=clock),
        sibling_changes=SiblingChanges(database, clock=clock),
        dispatcher=Dispatcher(database, puller, submitter, heartbeats, turns_of_workers()),
        puller=puller,
        submitter=submitter,
        heartbeats=heartbeats,
        lock_expiry=expiry,
        operator_actions=OperatorActions(database, expiry, rules=rules, clock=clock),
        retention=Retention(database, pages, settings.retention),
        recrawl=RecrawlInsights(database, settings.budgets),
        insights=CrawlInsights(database, rules=rules, fleet=fleet, bot_cap=settings.bot_max_locked),
        webhooks=Webhooks(database, allow=settings.webhook_allow, clock=clock),
        events=Events(database),
        dead_letters=DeadLetters(database, route_to_bus(settings, database)),
        projects=open_projects(
            database,
            settings.collector,
            settings.redis_url,
            check_url=lambda url: address.checked(url, settings.webhook_allow),
        ),
        project_insights=ProjectInsights(database),
        analytics=AnalyticsInsights(database),
        figures=Figures(database),
        prices=Prices(database),
        fired_alerts=FiredAlerts(database),
        activity=Activity(database),
        sorted_lists=SortedLists(database, Figures(database)),
        views=SavedViews(database),
    )


@asynccontextmanager
async def open_bus(settings: Settings, database: Database) -> AsyncIterator["LocalBus | RabbitBus"]:
    """RabbitMQ where it is configured, else the tables of the database."""
    bus: LocalBus | RabbitBus
    if settings.amqp_url is not None:
        bus = _rabbit(settings.amqp_url, settings)  # connects when it is first used
    else:
        bus = await LocalBus.connect(database, settings.topology)
    try:
        yield bus
    finally:
        await bus.close()


def _rabbit(url: str, settings: Settings) -> "RabbitBus":
    from opilio.rabbitmq.bus import RabbitBus  # noqa: PLC0415 - most processes never need it

    return RabbitBus(url, settings.topology)


def route_to_bus(settings: Settings, database: Database) -> Route:
    """The way from a transaction to the bus: the publisher's table, or the local queues."""
    if settings.amqp_url is not None:
        return to_broker
    return to_local_bus(LocalBus(database, settings.topology, timedelta(seconds=30)))
