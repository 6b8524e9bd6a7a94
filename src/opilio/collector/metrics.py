"""Prometheus metrics of the collector."""

from prometheus_client import Counter, Histogram

RESULTS = Counter("collector_results", "Results processed, by effect.", ["platform", "format", "effect"])
ANALYSES = Counter("collector_analyses", "Analysed batches processed.", ["outcome"])
VIOLATIONS = Counter("contract_violations", "Results that break a consistency rule.", ["rule"])
REFUSED = Counter("collector_dead_letters", "Messages sent to the dead letters.", ["queue"])
TASKS_SENT = Counter("collector_tasks_sent", "Tasks sent to crawlers.", ["platform", "retry"])
STALLED = Counter("opilio_collector_projects_stalled", "Projects whose analysis stood still for too long.")
TIMED_OUT = Counter("collector_tasks_timed_out", "Tasks that timed out.", ["platform"])
_DELAYS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
RESULT_DELAY = Histogram(
    "collector_result_delay_seconds",
    "Seconds from emitted_at of a result until it was recorded.",
    ["platform"],
    buckets=_DELAYS,
)
TASK_DELAY = Histogram(
    "collector_task_delay_seconds",
    "Seconds from emitted_at of a request until its task was sent.",
    ["platform"],
    buckets=_DELAYS,
)
