"""Messages and records that the tests of the collector share."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from opilio.collector.batches import Batch
from opilio.collector.result import Analysis, Result
from opilio.collector.task import State, Task

NOW = datetime(2026, 1, 15, 10, 0, tzinfo=UTC)


def item(job_id: str = "proj123-brand-0", platform: str = "tiktok", id_: str = "video123") -> dict[str, Any]:
    return {
        "meta": {
            "id": id_,
            "platform": platform,
            "job_id": job_id,
            "task_type": "research_and_crawl",
            "fetch_status": "success",
        },
        "content": {"text": "Pin VF8 rất ổn", "hashtags": []},
        "interaction": {"views": 1000, "likes": 100},
        "author": {"id": "author1", "username": "user1"},
        "comments": [],
    }


def v2(
    job_id: str = "proj123-brand-0",
    platform: str = "tiktok",
    *,
    found: int = 50,
    successful: int | None = None,
    failed: int = 0,
    success: bool = True,
    code: str | None = None,
    attempt: int | None = 1,
    cursor: str | None = None,
    items: bool = False,
    root: bool = True,
) -> dict[str, Any]:
    good = found - failed if successful is None else successful
    body: dict[str, Any] = {
        "success": success,
        "task_type": "research_and_crawl",
        "limit_info": {
            "requested_limit": 50,
            "applied_limit": 50,
            "total_found": found,
            "platform_limited": success and found < 50,
        },
        "stats": {
            "successful": good,
            "failed": failed,
            "skipped": 0,
            "completion_rate": round(good / found, 4) if found else 0,
        },
        "error": {"code": code, "message": "it did not work"} if code else None,
        "payload": [item(job_id, platform, str(n)) for n in range(good)] if items else [],
    }
    if root:
        body |= {"job_id": job_id, "platform": platform}
        body |= {"attempt": attempt} if attempt is not None else {}
        body |= {"cursor": cursor} if cursor is not None else {}
    return body


def analyzed(batch: int, success_count: int, error_count: int, project_id: str = "proj123") -> dict[str, Any]:
    return {
        "project_id": project_id,
        "job_id": f"{project_id}-brand-0-analyze-batch-{batch}",
        "task_type": "analyze_result",
        "batch_size": success_count + error_count,
        "success_count": success_count,
        "error_count": error_count,
    }


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def a_batch(**given: Any) -> Batch:
    fields: dict[str, Any] = {
        "project_id": "proj123",
        "platform": "tiktok",
        "job_id": "proj123-brand-0-analyze-batch-1",
        "crawl_id": "",
        "copy": 0,
        "task_job_id": "proj123-brand-0",
        "success_count": 50,
        "error_count": 0,
        "fetch_error_count": 0,
        "size_known": True,
        "counted": True,
        "digests": ("d",),
    }
    return Batch(**(fields | given))


def an_analysis(**given: Any) -> Analysis:
    fields: dict[str, Any] = {
        "project_id": "proj123",
        "job_id": "proj123-brand-0-analyze-batch-1",
        "success_count": 50,
        "error_count": 0,
        "platform": "tiktok",
        "digest": "d",
        "message_id": "m",
    }
    return Analysis(**(fields | given))


def a_task(**given: Any) -> Task:
    fields: dict[str, Any] = {
        "platform": "tiktok",
        "job_id": "proj123-brand-0",
        "project_id": "proj123",
        "state": State.OPEN,
        "attempt": 1,
        "max_attempts": 3,
        "ready_at": NOW,
    }
    return Task(**(fields | given))


def a_result(**given: Any) -> Result:
    result = Result(
        platform="tiktok",
        job_id="proj123-brand-0",
        format="v2",
        success=True,
        successful=48,
        failed=2,
        skipped=0,
        total_found=50,
        requested_limit=50,
        platform_limited=False,
        attempt=1,
        cursor="",
        digest="d",
    )
    return replace(result, **given)


def a_failure(code: str = "RATE_LIMITED", **given: Any) -> Result:
    return a_result(**({"success": False, "successful": 0, "failed": 0, "code": code} | given))
