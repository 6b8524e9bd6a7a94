"""The management API under /api/v1."""

from opilio.web.api.alerts import ALERTS
from opilio.web.api.analytics import ANALYTICS
from opilio.web.api.bots import BOTS
from opilio.web.api.hosts import HOSTS
from opilio.web.api.jobs import JOBS
from opilio.web.api.policies import POLICIES
from opilio.web.api.projects import PROJECTS
from opilio.web.api.results import RESULTS
from opilio.web.api.webhooks import WEBHOOKS

MANAGEMENT = [
    endpoint
    for registry in (POLICIES, JOBS, RESULTS, ALERTS, HOSTS, BOTS, WEBHOOKS, PROJECTS, ANALYTICS)
    for endpoint in registry.endpoints
]
