"""What the collector counts for Prometheus."""

from prometheus_client import Counter

RESULTS = Counter(
    "collector_results", "Results taken in, by what became of them.", ["platform", "format", "effect"]
)
ANALYSES = Counter("collector_analyses", "Analysed batches taken in.", ["outcome"])
VIOLATIONS = Counter("contract_violations", "Results that break a consistency rule.", ["rule"])
REFUSED = Counter("collector_dead_letters", "Messages that could not be processed.", ["queue"])
TASKS_SENT = Counter("collector_tasks_sent", "Tasks handed to crawlers.", ["platform", "retry"])
TIMED_OUT = Counter("collector_tasks_timed_out", "Tasks whose crawler never answered.", ["platform"])
