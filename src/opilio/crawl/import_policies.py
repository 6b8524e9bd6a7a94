"""Reads files of policies row by row: CSV, JSON lines, sitemaps, plain lists of URLs.

Reading is pure and streams. A row that cannot be read is answered as rejected, with the reason, and the others are
imported; `Invalid` is raised only where no row can be read at all: no header, not XML, not a sitemap.
Rows are counted from 1: lines of a JSONL file or a list, rows below the header of a CSV file, `<url>`s of a sitemap.
"""

import asyncio
import csv
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import UNSET

from opilio import audit
from opilio.contracts.policies import ImportRow, PolicyPatch
from opilio.crawl.policies import CheckedDrafts, Draft
from opilio.crawl.sitemap import sitemap_locations
from opilio.errors import Invalid, Refused
from opilio.validation import plain_words, translatable

Reading: TypeAlias = Draft | ImportRow

FIELDS = PolicyPatch.__struct_fields__
BATCH = 5_000
_BOM = "\ufeff"


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def read_csv(lines: Iterable[str], columns: Mapping[str, str] | None = None) -> Iterator[Reading]:
    """A header with the names of the fields, then a policy a row; an empty cell says nothing.

    `columns` says which field a column of the header is, where they differ; an empty name skips the column.
    """
    table, names = _open_table(lines)
    header = _header([(columns or {}).get(name, name) for name in names])
    unknown = next((name for name in header if name and name not in FIELDS), None)
    for row, cells in enumerate(_rows(table), 1):
        if isinstance(cells, csv.Error):
            yield _rejected(row, None, _Row(translatable("cannot be read: %(error)s"), error=str(cells)))
        else:
            yield _from_cells(row, header, cells, unknown)


def _open_table(lines: Iterable[str]) -> tuple[Iterator[list[str]], list[str]]:
    """The rows, and the header's cells."""
    lines = iter(lines)
    first = next(lines, "").removeprefix(_BOM)
    table = csv.reader(chain([first], lines), delimiter=_delimiter(first), strict=True)
    try:
        return table, [cell.strip() for cell in next(table, [])]
    except csv.Error as error:
        raise Invalid("header", "cannot be read: %(error)s", error=str(error)) from None


def suggest_columns(lines: Iterable[str]) -> dict[str, str]:
    """For each column of a CSV file the field that its name means; empty where nobody knows."""
    _, header = _open_table(lines)
    found: dict[str, str] = {}
    for cell in header:
        plain = re.sub(r"[^a-z]+", "_", cell.lower()).strip("_")
        field = plain if plain in FIELDS else _ALIASES.get(plain, "")
        found[cell] = "" if field in found.values() else field
    return found


# What other programs call the fields of a policy.
_ALIASES = {
    "link": "url",
    "address": "url",
    "product_url": "url",
    "page": "url",
    "website": "url",
    "interval": "frequency_hours",
    "hours": "frequency_hours",
    "every_hours": "frequency_hours",
    "frequency": "frequency_hours",
    "prio": "priority",
    "tags": "labels",
    "label": "labels",
    "active": "enabled",
    "retries": "max_retries",
    "timeout": "timeout_minutes",
}


def _delimiter(header: str) -> str:
    """Spreadsheets of some countries write semicolons, and what is copied from one has tabs."""
    return max(",;\t", key=header.count)


def _header(names: list[str]) -> list[str]:
    if "url" not in names:
        raise Invalid(
            "header", "names no column url; a policy has the fields %(fields)s", fields=", ".join(FIELDS)
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise Invalid("header", "names %(columns)s twice", columns=", ".join(twice))
    return names


def _rows(table: Iterator[list[str]]) -> Iterator[list[str] | csv.Error]:
    """Rows, and in the place of a broken one its error: the reader goes on behind it."""
    while True:
        try:
            cells = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            yield error
            continue
        if cells:  # a blank line is no row
            yield cells


def _from_cells(row: int, header: list[str], cells: list[str], unknown: str | None) -> Reading:
    if len(cells) != len(header):
        text = translatable("has %(cells)s cells; the header names %(columns)s columns")
        return _rejected(row, None, _Row(text, cells=len(cells), columns=len(header)))
    said = {name: text for name, cell in zip(header, cells, strict=True) if name and (text := cell.strip())}
    url = said.get("url")
    if unknown:
        return _rejected(row, url, _unknown(unknown))
    values: dict[str, Any] = {}
    for name, cell in said.items():
        try:
            values[name] = _FROM_TEXT[name](cell)
        except (ValueError, RecursionError):
            return _rejected(row, url, Invalid(name, _WANTED[name], value=repr(cell[:40])))
    return _from_values(row, url, values)


def _boolean(cell: str) -> bool:
    """Spreadsheets write TRUE and FALSE."""
    return _truth(cell.lower())


def _labels(cell: str) -> dict[str, Any]:
    """A JSON object, or what a person writes: `team=shoes; season=summer`."""
    if cell.startswith(("{", "[")):
        return _object(cell)
    pairs = [pair.partition("=") for pair in re.split(r"[;,\n]", cell) if pair.strip()]
    if not all(sign and key.strip() for key, sign, _ in pairs):
        raise ValueError(cell)
    return {key.strip(): value.strip() for key, _, value in pairs}


_truth = msgspec.json.Decoder(bool).decode
_json = msgspec.json.decode
_whole = msgspec.json.Decoder(int).decode
_number = msgspec.json.Decoder(float).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "url": str,
    "enabled": _boolean,
    "frequency_hours": _number,
    "priority": _whole,
    "max_retries": _whole,
    "retry_backoff_minutes": _number,
    "timeout_minutes": _number,
    "queue": str,
    "crawl_config": _object,
    "rule_set": _object,
    "hot": _boolean,
    "labels": _labels,
    "next_run_at": str,
    "schedule": str,
    "min_interval_hours": _number,
    "max_interval_hours": _number,
}
_WANTED = {
    name: {
        _boolean: translatable("%(value)s is not true or false"),
        _number: translatable("%(value)s is not a number"),
        _whole: translatable("%(value)s is not a whole number"),
        _object: translatable("%(value)s is not a JSON object"),
        _labels: translatable("%(value)s is not key=value pairs or a JSON object"),
    }.get(parse, translatable("%(value)s is not text"))
    for name, parse in _FROM_TEXT.items()
}


# ── JSON lines, lists ────────────────────────────────────────────────────────────────────────────


def read_jsonl(lines: Iterable[str]) -> Iterator[Reading]:
    """A policy a line, as an object with the fields of the API."""
    for row, line in enumerate(lines, 1):
        text = line.removeprefix(_BOM).strip() if row == 1 else line.strip()
        if text:
            yield _from_line(row, text)


def _from_line(row: int, text: str) -> Reading:
    try:
        value = _json(text)
    except RecursionError:
        return _rejected(row, None, _Row(translatable("is nested too deeply")))
    except (msgspec.DecodeError, UnicodeError) as error:
        return _rejected(row, None, _Row(translatable("is not JSON: %(error)s"), error=str(error)))
    return _from_values(row, _url_of(value), value)


def _url_of(value: Any) -> str | None:
    url = value.get("url") if isinstance(value, Mapping) else None
    return url if isinstance(url, str) else None


def read_urls(lines: Iterable[str]) -> Iterator[Reading]:
    """A URL a line; blank lines and lines that begin with # are skipped."""
    for row, line in enumerate(lines, 1):
        url = line.removeprefix(_BOM).strip()
        if url and not url.startswith("#"):
            yield Draft(row, url, PolicyPatch(url=url))


# ── sitemaps ─────────────────────────────────────────────────────────────────────────────────────


def read_sitemap(data: bytes) -> Iterator[Reading]:
    """The URLs of a sitemap, plain or gzipped. The site's own priorities are ignored."""
    for row, text in enumerate(sitemap_locations(data), 1):
        url = text.strip()
        yield (
            Draft(row, url, PolicyPatch(url=url))
            if url
            else _rejected(row, None, Invalid("url", "<loc> is missing or empty"))
        )


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def read_values(rows: Iterable[Mapping[str, Any]]) -> Iterator[Reading]:
    """Policies that are in memory already, a mapping each."""
    for row, values in enumerate(rows, 1):
        yield _from_values(row, _url_of(values), values)


# ── shared ───────────────────────────────────────────────────────────────────────────────────────


def _from_values(row: int, url: str | None, values: Any) -> Reading:
    try:
        return _draft(row, msgspec.convert(values, PolicyPatch))
    except msgspec.ValidationError as error:
        return _rejected(row, url, _in_words(error))


def _draft(row: int, patch: PolicyPatch) -> Reading:
    if patch.url is UNSET:
        return _rejected(row, None, Invalid("url", "is missing"))
    return Draft(row, patch.url, patch)


class _Row(Refused):
    """A row that cannot be read as a whole."""

    def __init__(self, template: str, **params: Any) -> None:
        super().__init__("validation_error", template, **params)


def _rejected(row: int, url: str | None, refusal: Refused) -> ImportRow:
    return ImportRow(row=row, url=url, status="rejected", error=refusal.message).refused_with(refusal)


def _unknown(name: str) -> Invalid:
    text = translatable("is no field of a policy; the fields are %(fields)s")
    return Invalid(name[:40], text, fields=", ".join(FIELDS))


_AT = re.compile(r"^(?P<what>.*) - at `(?:key in )?\$\.?(?P<field>.*)`$", re.DOTALL)
_STRANGE = re.compile(r"^Object contains unknown field `(?P<name>.*)`", re.DOTALL)


def _in_words(error: msgspec.ValidationError) -> Refused:
    """`Expected `int` <= 100 - at `$.priority`` → `priority: must be at most 100`."""
    text = str(error)
    if strange := _STRANGE.match(text):
        return _unknown(strange["name"])
    found = _AT.match(text)
    template, params = plain_words(found["what"] if found else text)
    return (
        Invalid(found["field"], template, **params) if found and found["field"] else _Row(template, **params)
    )


# ── saving ───────────────────────────────────────────────────────────────────────────────────────


class PolicyStore(Protocol):
    """`Policies`, or a stand-in for tests."""

    def check_drafts(self, drafts: Iterable[Draft]) -> CheckedDrafts: ...

    async def import_checked(self, checked: CheckedDrafts, by: str) -> list[ImportRow]: ...

    async def preview_checked(self, checked: CheckedDrafts) -> list[ImportRow]: ...


async def import_rows(
    policies: PolicyStore, readings: Iterable[Reading], by: str = audit.SYSTEM, *, batch: int = BATCH
) -> AsyncIterator[list[ImportRow]]:
    """Saves what was read, a batch at a time, and answers every row in the order of the file."""
    async with aclosing(_batches(policies, readings, batch)) as batches:
        async for rejected, checked in batches:
            saved = await policies.import_checked(checked, by)
            yield sorted([*rejected, *saved], key=_row)


async def preview_rows(
    policies: PolicyStore, readings: Iterable[Reading], *, batch: int = BATCH
) -> AsyncIterator[list[ImportRow]]:
    """What an import would answer for every row; nothing is written."""
    seen: set[str | None] = set()
    async with aclosing(_batches(policies, readings, batch)) as batches:
        async for rejected, checked in batches:
            judged = await policies.preview_checked(checked)
            for answer in judged:
                if answer.status == "created" and answer.url in seen:
                    answer.status = "updated"  # the row before has created it by then
                seen.add(answer.url)
            yield sorted([*rejected, *judged], key=_row)


_row = attrgetter("row")
_Batch: TypeAlias = tuple[list[ImportRow], CheckedDrafts]


async def _batches(
    policies: PolicyStore, readings: Iterable[Reading], size: int
) -> AsyncGenerator[_Batch, None]:
    """Batches, read and checked in a thread: the next one while the caller still saves the one before."""
    source = iter(readings)

    def read() -> _Batch | None:
        chunk = list(islice(source, size))
        rejected = [reading for reading in chunk if isinstance(reading, ImportRow)]
        return (rejected, policies.check_drafts(r for r in chunk if isinstance(r, Draft))) if chunk else None

    ahead = asyncio.create_task(asyncio.to_thread(read))
    try:
        while batch := await ahead:
            ahead = asyncio.create_task(asyncio.to_thread(read))
            yield batch
    finally:  # nobody closes the file under a thread that still reads it
        await asyncio.gather(ahead, return_exceptions=True)
