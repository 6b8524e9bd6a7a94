"""Import a file of policies: first a preview of every row, then the import, each with a progress bar."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from litestar.datastructures import UploadFile
from litestar.response import Stream

from opilio.contracts.policies import ImportRow
from opilio.crawl.import_policies import (
    FIELDS,
    Reading,
    import_rows,
    preview_rows,
    read_csv,
    read_jsonl,
    read_sitemap,
    read_urls,
    suggest_columns,
)
from opilio.errors import Invalid, Refused
from opilio.web.dashboard.live import event
from opilio.web.dashboard.page import Page, PageRequest, Section
from opilio.web.dashboard.render import fragment

IMPORTS = Section()
_MOST_SHOWN = 500
_BATCH = 1_000
_COLUMN = "column:"


@IMPORTS.page("/policies/import", need="write", as_data=False)
async def import_page(request: PageRequest) -> Page:
    return Page("import.html", request.locale.gettext("Import policies"))


@IMPORTS.action("/policies/import")
async def import_file(request: PageRequest) -> Any:
    """Answers as a stream: each batch moves the bar, the last message carries the rows.

    The first step only shows what would happen to every row; the second sends the same file again and writes.
    """
    form = await request.http.form()
    file, pasted = form.get("file"), str(form.get("text") or "")
    data = await file.read() if isinstance(file, UploadFile) and file.filename else pasted.encode()
    name = file.filename if isinstance(file, UploadFile) else ""
    chosen = {key.removeprefix(_COLUMN): str(value) for key, value in form.items() if key.startswith(_COLUMN)}
    run = _Run(request, name, data, chosen, is_preview=form.get("step") != "import")
    return Stream(run.messages(), media_type="text/event-stream", headers={"cache-control": "no-store"})


class _Run:
    """One pass over a file: a preview, or the import itself."""

    def __init__(
        self, request: PageRequest, name: str, data: bytes, chosen: Mapping[str, str], *, is_preview: bool
    ) -> None:
        self._request = request
        self._name, self._data, self._chosen = name, data, chosen
        self._is_preview = is_preview
        self._columns: dict[str, str] = {}
        self._counts = {"created": 0, "updated": 0, "rejected": 0}
        self._total = max(1, data.count(b"<loc>") or data.count(b"\n"))

    async def messages(self) -> AsyncIterator[str]:
        shown: list[ImportRow] = []
        try:
            async for answers in self._batches():
                for answer in answers:
                    self._counts[answer.status] += 1
                shown += answers
                # Whatever is left out is what went well.
                shown.sort(key=lambda row: (row.status != "rejected", row.row))
                del shown[_MOST_SHOWN:]
                yield self._message()
        except Refused as refusal:
            yield self._message(fault=self._request.locale.refusal(refusal), done=True)
            return
        yield self._message(rows=shown, done=True)

    def _batches(self) -> AsyncIterator[list[ImportRow]]:
        policies, readings = self._request.opilio.policies, self._readings()
        if self._is_preview:
            return preview_rows(policies, readings, batch=_BATCH)
        return import_rows(policies, readings, self._request.actor, batch=_BATCH)

    def _readings(self) -> Iterator[Reading]:
        kind, content = sniff(self._name, self._data)
        if kind != "csv":
            return _READERS[kind](content)
        self._columns = suggest_columns(content)
        # A choice of another file says nothing about this one.
        self._columns |= {key: field for key, field in self._chosen.items() if key in self._columns}
        return read_csv(content, self._columns)

    def _message(self, **more: Any) -> str:
        seen = sum(self._counts.values())
        html = fragment(
            "parts/import_progress.html",
            self._request.locale,
            counts=self._counts,
            seen=seen,
            total=max(self._total, seen),
            is_preview=self._is_preview,
            columns=self._columns,
            fields=FIELDS,
            **{"rows": [], "fault": None, "done": False} | more,
        )
        return event("", html)


_READERS: dict[str, Callable[[Any], Iterator[Reading]]] = {
    "sitemap": read_sitemap,
    "jsonl": read_jsonl,
    "urls": read_urls,
}


def sniff(name: str, data: bytes) -> tuple[str, Any]:
    """By what the file is, not by what it is called; the name decides only where the content does not."""
    head = data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head:
        raise Invalid("file", "is empty: choose a file, or paste some lines")
    if head.startswith((b"<", b"\x1f\x8b")):
        return "sitemap", data
    try:
        lines = data.decode("utf-8-sig").splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise Invalid(
            "file", "is not UTF-8: %(why)s at byte %(at)s", why=error.reason, at=error.start
        ) from None
    if head.startswith(b"{"):
        return "jsonl", lines
    if head.lower().startswith((b"http://", b"https://")) and not name.lower().endswith(".csv"):
        return "urls", lines
    return "csv", lines
