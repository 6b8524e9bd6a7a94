"""Prometheus metrics of the analytics role."""

from collections import deque

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from opilio.analytics.processing import Done, Outcome
from opilio.contracts.codes import ErrorCode, category_of

# Rates cover recent batches, so that an alert reacts to the present.
_WINDOW = 200
_OUR_CODES = frozenset(map(str, ErrorCode))
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1, 2.5, 5, 10, 30)


class AnalyticsMetrics:
    """Counts outcomes; one instance per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._received = Counter(
            "events_received", "Messages taken from the queue.", ["platform"], registry=registry
        )
        self._processed = Counter(
            "items_processed", "Items analysed or failed.", ["platform"], registry=registry
        )
        self._errors = Counter(
            "errors_by_code",
            "Items that failed.",
            ["platform", "error_code", "error_category"],
            registry=registry,
        )
        self._success = _gauge("success_rate", "Share of recent items that succeeded.", registry)
        self._error = _gauge("error_rate", "Share of recent items that failed.", registry)
        self._whole = Histogram(
            "event_processing_duration",
            "Seconds for a batch.",
            ["platform"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self._fetch = Histogram(
            "batch_fetch_duration",
            "Seconds to fetch a batch.",
            ["platform"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self._recent: dict[str, deque[tuple[int, int]]] = {}

    def observe(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Done):
            self._received.labels("unknown").inc()
            return
        platform = outcome.inbound.context.platform or "unknown"
        self._received.labels(platform).inc()
        if outcome.rows is None:
            return
        counts = outcome.rows.counts
        self._processed.labels(platform).inc(counts.size + counts.fetch_errors)
        for code, count in outcome.rows.errors_by_code.items():
            # Crawlers may send any code; only known codes become labels, which bounds the time series.
            known = code if code in _OUR_CODES else "OTHER"
            self._errors.labels(platform, known, category_of(code)).inc(count)
        self._whole.labels(platform).observe(outcome.seconds)
        self._fetch.labels(platform).observe(outcome.fetch_seconds)
        self._rate(platform, counts.succeeded, counts.failed + counts.fetch_errors)

    def _rate(self, platform: str, succeeded: int, failed: int) -> None:
        recent = self._recent.setdefault(platform, deque(maxlen=_WINDOW))
        recent.append((succeeded, failed))
        good, bad = (sum(column) for column in zip(*recent, strict=True))
        if good + bad:
            self._success.labels(platform).set(good / (good + bad))
            self._error.labels(platform).set(bad / (good + bad))


def _gauge(name: str, meaning: str, registry: CollectorRegistry) -> Gauge:
    """With several processes the most recent value is exposed."""
    return Gauge(name, meaning, ["platform"], registry=registry, multiprocess_mode="mostrecent")
