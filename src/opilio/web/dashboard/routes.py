"""The dashboard's routes, and what runs beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from opilio.insights.rollup import Rollup
from opilio.runtime.bootstrap import Opilio
from opilio.runtime.dependencies import DependencyWatch, dependencies
from opilio.web.dashboard.account import ACCOUNT
from opilio.web.dashboard.alerts import ALERTS
from opilio.web.dashboard.analytics import ANALYTICS
from opilio.web.dashboard.api_reference import API_REFERENCE
from opilio.web.dashboard.bots import BOTS
from opilio.web.dashboard.bulk import BULK
from opilio.web.dashboard.dead_letters import DEAD_LETTERS
from opilio.web.dashboard.dry_runs import DRY_RUNS
from opilio.web.dashboard.events import EVENTS
from opilio.web.dashboard.hosts import HOSTS
from opilio.web.dashboard.imports import IMPORTS
from opilio.web.dashboard.jobs import JOBS
from opilio.web.dashboard.live import LIVE, Live
from opilio.web.dashboard.overview import OVERVIEW
from opilio.web.dashboard.palette import PALETTE
from opilio.web.dashboard.policies import POLICIES
from opilio.web.dashboard.policy_form import POLICY_FORM
from opilio.web.dashboard.prices import PRICES
from opilio.web.dashboard.project_form import PROJECT_FORM
from opilio.web.dashboard.projects import PROJECTS
from opilio.web.dashboard.receiver import RECEIVER
from opilio.web.dashboard.recrawl import RECRAWL
from opilio.web.dashboard.results import RESULTS
from opilio.web.dashboard.settings import SETTINGS
from opilio.web.dashboard.single_flight import SingleFlight
from opilio.web.dashboard.views import VIEWS
from opilio.web.dashboard.webhooks import WEBHOOKS

_SECTIONS = (
    OVERVIEW,
    POLICY_FORM,
    IMPORTS,
    POLICIES,
    PRICES,
    RECRAWL,
    ALERTS,
    BULK,
    JOBS,
    RESULTS,
    BOTS,
    HOSTS,
    DRY_RUNS,
    PROJECT_FORM,
    PROJECTS,
    ANALYTICS,
    RECEIVER,
    WEBHOOKS,
    EVENTS,
    DEAD_LETTERS,
    SETTINGS,
    ACCOUNT,
    API_REFERENCE,
    VIEWS,
    PALETTE,
    LIVE,
)


def dashboard_routes() -> list[HTTPRouteHandler]:
    return list(chain.from_iterable(section.routes for section in _SECTIONS))


@asynccontextmanager
async def serve_dashboard(app: Litestar, opilio: Opilio) -> AsyncIterator[None]:
    """Runs the shared live stream and the rollup of figures per minute."""
    settings = opilio.settings
    live = Live(
        opilio.figures,
        DependencyWatch(dependencies(settings)),
        most_per_session=settings.live_streams_per_session,
    )
    app.state.live = live
    app.state.single_flight = SingleFlight()
    rollup = asyncio.create_task(Rollup(opilio.database).run())
    try:
        yield
    finally:
        rollup.cancel()
        await asyncio.gather(rollup, return_exceptions=True)
        await live.close()
