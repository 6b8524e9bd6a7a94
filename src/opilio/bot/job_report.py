"""The report about a finished job that `Bot(observe=…)` receives."""

from decimal import Decimal
from typing import Any, Literal

import msgspec

from opilio.contracts.bot_api import ItemAnswer, Outcome, PulledJob

Status = Literal["done", "pending", "failed", "refused", "lost", "released"]


class JobReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One finished job; `refused` and `lost` mean that the result was not accepted."""

    job_id: str
    url: str
    queue: str
    status: Status
    price: Decimal | None = None
    currency: str | None = None
    title: str | None = None
    in_stock: bool | None = None
    error_code: str | None = None
    error_msg: str | None = None
    crawl_duration: float | None = None
    reason: str | None = None


def of_answer(job: PulledJob, outcome: Outcome, answer: ItemAnswer) -> JobReport:
    data: Any = answer.data if isinstance(answer.data, dict) else {}
    error: Any = answer.error if isinstance(answer.error, dict) else {}
    return JobReport(
        job_id=str(job.job_id),
        url=job.url,
        queue=job.queue,
        status=data.get("status", "done") if answer.success else "refused",
        price=msgspec.json.decode(outcome.price, type=Decimal | None) if outcome.success else None,
        currency=outcome.currency,
        title=outcome.title,
        in_stock=outcome.in_stock,
        error_code=outcome.error_code,
        error_msg=outcome.error_msg,
        crawl_duration=outcome.crawl_duration,
        reason=error.get("code") if error else data.get("message"),
    )


def without_answer(job: PulledJob, status: Status, reason: str | None = None) -> JobReport:
    return JobReport(job_id=str(job.job_id), url=job.url, queue=job.queue, status=status, reason=reason)
