"""Import a file of policies: a progress bar while it runs, an answer for every row."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from litestar.datastructures import UploadFile
from litestar.response import Stream

from opilio.contracts.policies import ImportRow
from opilio.crawl.import_policies import Reading, import_rows, read_csv, read_jsonl, read_sitemap, read_urls
from opilio.errors import Invalid, Refused
from opilio.web.dashboard.live import event
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.dashboard.render import fragment

IMPORTS = Section()
_MOST_SHOWN = 500
_BATCH = 1_000


@IMPORTS.page("/policies/import", need="write", as_data=False)
async def import_page(request: PageRequest) -> Page:
    return Page("import.html", request.locale.gettext("Import policies"))


@IMPORTS.action("/policies/import")
async def import_file(request: PageRequest) -> Any:
    """Answers as a stream: each batch moves the bar, the last message carries the rows."""
    form = await request.http.form()
    file, pasted = form.get("file"), str(form.get("text") or "")
    data = await file.read() if isinstance(file, UploadFile) and file.filename else pasted.encode()
    name = file.filename if isinstance(file, UploadFile) else ""
    return Stream(
        _run(request, name, data), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


async def _run(request: PageRequest, name: str, data: bytes) -> AsyncIterator[str]:
    counts = {"created": 0, "updated": 0, "rejected": 0}
    shown: list[ImportRow] = []
    total = max(1, data.count(b"<loc>") or data.count(b"\n"))
    try:
        async for answers in import_rows(
            request.opilio.policies, readings(name, data), request.actor, batch=_BATCH
        ):
            for answer in answers:
                counts[answer.status] += 1
            shown += answers
            # Rows beyond the shown ones succeeded.
            shown.sort(key=lambda row: (row.status != "rejected", row.row))
            del shown[_MOST_SHOWN:]
            yield _message(request, counts, total)
    except Refused as refusal:
        yield _message(request, counts, total, fault=request.locale.refusal(refusal), done=True)
        return
    yield _message(request, counts, total, rows=shown, done=True)


def _message(request: PageRequest, counts: dict[str, int], total: int, **more: Any) -> str:
    values = {"rows": [], "fault": None, "done": False} | more
    seen = sum(counts.values())
    html = fragment(
        "parts/import_progress.html",
        request.locale,
        counts=counts,
        seen=seen,
        total=max(total, seen),
        **values,
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
        raise Invalid(
            "file", "is not UTF-8: %(why)s at byte %(at)s", why=error.reason, at=error.start
        ) from None
    if head.startswith(b"{"):
        return read_jsonl(lines)
    if head.lower().startswith((b"http://", b"https://")) and not name.lower().endswith(".csv"):
        return read_urls(lines)
    return read_csv(lines)
