"""Consumes `analytics.data.collected`: one message to the processor, its outcome to the bus and the metrics."""

from opilio.analytics.metrics import AnalyticsMetrics
from opilio.analytics.processing import BatchProcessor, Disabled, Done, Reject, RetryLater
from opilio.bus import Ack, DeadLetter, Message, Park, Retry, Verdict


class BatchConsumer:
    """The handler that the bus calls for each message."""

    def __init__(self, processor: BatchProcessor, metrics: AnalyticsMetrics) -> None:
        self._processor = processor
        self._metrics = metrics

    async def handle(self, message: Message) -> Verdict:
        outcome = await self._processor.process(message.body, message.headers, retries=message.retries)
        self._metrics.observe(outcome)
        match outcome:
            case Done():
                return Ack()
            case RetryLater(after, reason):
                return Retry(after, reason)
            case Reject(reason):
                return DeadLetter(reason)
            case Disabled(format_, reason):
                return Park(format_, reason)
