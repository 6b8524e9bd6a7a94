"""Import a file of policies: a progress bar while it runs, an answer for every row."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from litestar.datastructures import UploadFile
from litestar.response import Stream

from opilio.contracts.policies import ImportRow
from opilio.crawl.import_policies import Reading, import_rows, read_csv, read_jsonl, read_sitemap, read_urls
from opilio.errors import Invalid, Refused
from opilio.web.dashboard.live import event
from opilio.web.dashboard.page import Page, Site, Visit
from opilio.web.dashboard.render import fragment

IMPORTS = Site()
_MOST_SHOWN = 500
_BATCH = 1_000


@IMPORTS.page("/policies/import", need="write", twins=False)
async def import_page(visit: Visit) -> Page:
    return Page("import.html", visit.words.say("Import policies"))


@IMPORTS.action("/policies/import")
async def import_file(visit: Visit) -> Any:
    """Answers as a stream: each batch moves the bar, the last message carries the rows."""
    form = await visit.request.form()
    file, pasted = form.get("file"), str(form.get("text") or "")
    data = await file.read() if isinstance(file, UploadFile) and file.filename else pasted.encode()
    name = file.filename if isinstance(file, UploadFile) else ""
    return Stream(
        _run(visit, name, data), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _run(visit: Visit, name: str, data: bytes) -> AsyncIterator[str]:
    counts = {"created": 0, "updated": 0, "rejected": 0}
    shown: list[ImportRow] = []
    total = max(1, data.count(b"<loc>") or data.count(b"\n"))
    try:
        async for answers in import_rows(visit.opilio.policies, readings(name, data), batch=_BATCH):
            for answer in answers:
                counts[answer.status] += 1
            shown += answers
            # Whatever is left out is what went well.
            shown.sort(key=lambda row: (row.status != "rejected", row.row))
            del shown[_MOST_SHOWN:]
            yield _message(visit, counts, total)
    except Refused as refusal:
        yield _message(visit, counts, total, fault=refusal.message, done=True)
        return
    visit.app.desk.work_appeared()
    await visit.note("policies.import", "policies", counts)
    yield _message(visit, counts, total, rows=shown, done=True)


def _message(visit: Visit, counts: dict[str, int], total: int, **more: Any) -> str:
    values = {"rows": [], "fault": None, "done": False} | more
    seen = sum(counts.values())
    html = fragment(
        "parts/import_progress.html", visit.words, counts=counts, seen=seen, total=max(total, seen), **values
    )
    return event("", html)


def readings(name: str, data: bytes) -> Iterator[Reading]:
    """By what the file is, not by what it is called; the name decides only where the content does not."""
    head = data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head:
        raise Invalid("file", "is empty: choose a file, or paste some lines")
    if head.startswith((b"<", b"\x1f\x8b")):
        return read_sitemap(data)
    try:
        lines = data.decode("utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise Invalid("file", f"is not UTF-8: {error.reason} at byte {error.start}") from None
    if head.startswith(b"{"):
        return read_jsonl(lines)
    if head.lower().startswith((b"http://", b"https://")) and not name.lower().endswith(".csv"):
        return read_urls(lines)
    return read_csv(lines)
