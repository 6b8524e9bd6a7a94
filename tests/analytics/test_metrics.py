from prometheus_client import CollectorRegistry, generate_latest

from opilio.analytics.metrics import AnalyticsMetrics
from opilio.analytics.processing import Reject
from tests.analytics.batches import body, event, failed, post


async def test_names_and_labels_are_the_contract(processor, buckets):
    await buckets.put("r", "1.json", body(post("1"), post("2"), post("3"), failed("4", "TIMEOUT")))
    registry = CollectorRegistry()
    metrics = AnalyticsMetrics(registry)
    metrics.observe(await processor.process(event("r/1.json")))
    metrics.observe(await processor.process(event("r/1.json")))
    metrics.observe(Reject("not_json"))
    text = generate_latest(registry).decode()
    for line in (
        'events_received_total{platform="tiktok"} 2.0',
        'events_received_total{platform="unknown"} 1.0',
        'items_processed_total{platform="tiktok"} 4.0',
        'errors_by_code_total{error_category="network",error_code="TIMEOUT",platform="tiktok"} 1.0',
        'success_rate{platform="tiktok"} 0.75',
        'error_rate{platform="tiktok"} 0.25',
        'event_processing_duration_count{platform="tiktok"} 1.0',
        'batch_fetch_duration_count{platform="tiktok"} 1.0',
    ):
        assert line in text
