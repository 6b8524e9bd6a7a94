"""What the collector counts; names and meanings are in `opilio.metrics`."""

from prometheus_client import Counter, Histogram

from opilio.metrics import make

_DELAYS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)

RESULTS: Counter = make("collector_results")
ANALYSES: Counter = make("collector_analyses")
VIOLATIONS: Counter = make("contract_violations")
REFUSED: Counter = make("collector_dead_letters")
TASKS_SENT: Counter = make("collector_tasks_sent")
STALLED: Counter = make("opilio_collector_projects_stalled")
TIMED_OUT: Counter = make("collector_tasks_timed_out")
RESULT_DELAY: Histogram = make("collector_result_delay_seconds", _DELAYS)
TASK_DELAY: Histogram = make("collector_task_delay_seconds", _DELAYS)
