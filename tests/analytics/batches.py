"""Items and messages as crawlers make them."""

import json

import msgspec


def post(content_id="7312345678901234567", text="Pin trâu, chụp ảnh đẹp, rất đáng tiền", **parts):
    meta = {
        "id": content_id,
        "platform": "TIKTOK",
        "fetch_status": "success",
        "published_at": "2026-05-01T08:00:00Z",
    }
    return {
        "meta": meta | parts.pop("meta", {}),
        "content": {"text": text} | parts.pop("content", {}),
        "interaction": {"views": 1000, "likes": 50, "comments_count": 3} | parts.pop("interaction", {}),
        "author": {"id": 42, "name": "An", "followers": 900} | parts.pop("author", {}),
        "comments": parts.pop("comments", []),
    }


def failed(content_id, code="CONTENT_REMOVED", message="gone"):
    return {
        "meta": {
            "id": content_id,
            "platform": "TIKTOK",
            "fetch_status": "error",
            "error_code": code,
            "error_message": message,
            "error_details": {"http": 404},
            "permalink": f"https://tiktok.test/{content_id}",
        }
    }


def event(path="crawl-results/tiktok/proj_xyz/brand/batch_001.json", event_id="evt_1", **payload):
    base = {
        "minio_path": path,
        "project_id": "proj_xyz",
        "job_id": "proj_xyz-brand-0",
        "batch_index": 1,
        "content_count": 3,
        "platform": "tiktok",
        "task_type": "research_and_crawl",
        "keyword": "VinFast VF8",
    }
    message = {"event_id": event_id, "event_type": "data.collected", "payload": base | payload}
    return json.dumps(message).encode()


def body(*items):
    return msgspec.json.encode(list(items))
