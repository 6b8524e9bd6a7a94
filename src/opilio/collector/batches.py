"""Decides which analysed batches of a project count.

A batch is identified by project, platform and job id; the newest message of one identity replaces the one before. A
crawler that crashed and crawled again has stored its batches twice: those of the run whose result is counted count.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from opilio.collector.result import Analysis

_BATCH_NAME = re.compile(r"(.+)-analyze-batch-[^-]+")
ANY_BODY = "*"  # recorded before there was a row for each batch: whatever comes was counted


@dataclass(frozen=True, slots=True)
class Batch:
    """An `analyze_result` that was received. `copy` numbers messages of one name that name no platform."""

    project_id: str
    platform: str
    job_id: str
    crawl_id: str
    copy: int
    task_job_id: str
    success_count: int
    error_count: int
    fetch_error_count: int
    size_known: bool
    counted: bool
    digests: tuple[str, ...] = ()

    @property
    def items(self) -> int:
        return self.success_count + self.error_count


def task_of_batch(job_id: str) -> str:
    """The job id of the task that a batch belongs to: `"<job>-analyze-batch-<n>"`."""
    found = _BATCH_NAME.fullmatch(job_id)
    return found.group(1) if found else job_id


def place(
    batches: Sequence[Batch],
    analysis: Analysis,
    *,
    platforms: int,
    crawl_id: str | None,
    project_done: bool = False,
) -> list[Batch] | None:
    """The batches of a task after an `analyze_result`; None where it is a repetition.

    `batches` are those of the task in the order they came, `crawl_id` is the run whose result is counted, if one is.
    """
    same_name = [batch for batch in batches if batch.job_id == analysis.job_id]
    if any(_seen(batch, analysis) for batch in same_name):
        return None
    new = _new(analysis, copy=0, counted=not project_done)
    others = [batch for batch in batches if batch.job_id != analysis.job_id]
    if project_done:
        kept = [batch for batch in same_name if _key(batch) == _key(new)]
        return [*batches, replace(new, counted=False)] if not kept else _with_digest(batches, kept[0], new)
    if not analysis.platform:
        return [*others, *_without_platform(same_name, new, platforms)]
    earlier = next((batch for batch in same_name if batch.crawl_id == new.crawl_id), None)
    if earlier is not None:
        new = replace(new, digests=(*earlier.digests, *new.digests))
        same_name.remove(earlier)
    return choose_counted([*others, *same_name, new], crawl_id)


def choose_counted(batches: Iterable[Batch], crawl_id: str | None) -> list[Batch]:
    """Of several runs that stored a batch of one name, the one whose result is counted, else the newest.

    A batch of a run that crashed, and that the counted run did not store again, does not count.
    """
    chosen: list[Batch] = []
    ordered = list(batches)
    for _, named in groupby(sorted(ordered, key=lambda batch: batch.job_id), key=lambda batch: batch.job_id):
        rows = list(named)
        if not rows[0].platform or ANY_BODY in rows[0].digests:
            chosen += rows
            continue
        eligible = [row for row in rows if crawl_id is None or row.crawl_id in ("", crawl_id)]
        matching = [row for row in eligible if row.crawl_id == (crawl_id or "")]
        newest = (matching or eligible)[-1:]
        chosen += [replace(row, counted=row in newest) for row in rows]
    return chosen


def fill_shortfall(undecided: Sequence[Batch], owed: dict[str, int], shortfall: int) -> list[Batch]:
    """Counts what did not count yet, as far as the project lacks it: called when its analysis stands still.

    Copies without a platform are the batches of another platform, if their job owes so many; an unreadable batch of
    unknown size is what its job still owes.
    """
    changed: list[Batch] = []
    for batch in undecided:
        unknown = 0 if _names_its_task(batch) else shortfall
        owes = min(owed.get(batch.task_job_id, unknown), shortfall)
        if not batch.size_known:
            missing = max(0, owes)
            if missing:
                changed.append(replace(batch, error_count=batch.error_count + missing, counted=True))
        elif 0 < batch.items <= owes:
            missing = batch.items
            changed.append(replace(batch, counted=True))
        else:
            continue
        shortfall -= missing
        if batch.task_job_id in owed:
            owed[batch.task_job_id] -= missing
    return changed


def _names_its_task(batch: Batch) -> bool:
    return batch.task_job_id != batch.job_id


def _without_platform(same_name: list[Batch], new: Batch, platforms: int) -> list[Batch]:
    """The newest message counts; earlier ones may be another platform's and are kept beside it."""
    copies = sorted(same_name, key=lambda batch: batch.copy)
    equal = next((batch for batch in copies if batch.digests[0] == new.digests[0]), None)
    if len(copies) < platforms:
        new = replace(new, copy=len(copies), counted=equal is None)
        return [replace(batch, counted=batch.counted and equal is not None) for batch in copies] + [new]
    if equal is not None:
        return copies
    counted = next((batch for batch in copies if batch.counted), copies[-1])
    replaced = replace(new, copy=counted.copy, counted=True)
    return [replaced if batch is counted else batch for batch in copies]


def _seen(batch: Batch, analysis: Analysis) -> bool:
    if ANY_BODY in batch.digests:
        return batch.platform == analysis.platform
    if not analysis.platform:
        # Two platforms may send equal bodies: only the id of the message tells a repetition.
        return analysis.message_id in batch.digests
    return batch.crawl_id == analysis.crawl_id and analysis.digest in batch.digests


def _new(analysis: Analysis, *, copy: int, counted: bool) -> Batch:
    return Batch(
        project_id=analysis.project_id,
        platform=analysis.platform,
        job_id=analysis.job_id,
        crawl_id=analysis.crawl_id,
        copy=copy,
        task_job_id=task_of_batch(analysis.job_id),
        success_count=analysis.success_count,
        error_count=analysis.error_count,
        fetch_error_count=analysis.fetch_error_count,
        size_known=analysis.size_known,
        counted=counted,
        digests=(analysis.digest,) if analysis.platform else (analysis.digest, analysis.message_id),
    )


def _key(batch: Batch) -> tuple[str, str, int]:
    return batch.job_id, batch.crawl_id, batch.copy


def _with_digest(batches: Sequence[Batch], kept: Batch, new: Batch) -> list[Batch]:
    return [
        replace(batch, digests=(*batch.digests, *new.digests)) if batch is kept else batch
        for batch in batches
    ]
