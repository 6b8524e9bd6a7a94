"""`opilio analytics`: figures and exports of analysed posts, and the stages on your own texts."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from opilio.cli.context import actor, open_opilio_for_cli, run_async
from opilio.cli.option_types import Since, Until
from opilio.cli.output import Json, note, print_fields, print_table, show

if TYPE_CHECKING:
    from opilio.contracts.analytics import AnalyticsSummary
    from opilio.contracts.projects import RetriedErrors

app = typer.Typer(no_args_is_help=True, help="What posts say.")
_TOGETHER = 256


class TextLine(msgspec.Struct):
    id: str | int
    text: str
    lang: str | None = None


@app.command()
def summary(project_id: str, json: Json = False) -> None:
    """Shows the figures of a project's posts: volume, sentiment, intent, impact, errors."""
    figures = run_async(_summary(project_id))
    show(figures, json, lambda: _print_summary(msgspec.to_builtins(figures, builtin_types=(datetime,))))


def _print_summary(figures: dict[str, Any]) -> None:
    """Single figures a line each, counts as words, and a table for each list."""
    lists = {name: value for name, value in figures.items() if isinstance(value, list)}
    aspects = figures.pop("aspects")
    counted = {
        name: ", ".join(f"{key} {count:,}" for key, count in value.items()) or "-"
        for name, value in figures.items()
        if isinstance(value, dict)
    }
    print_fields(figures | counted, hide=tuple(lists))
    lists["aspects"] = [{"aspect": name} | of for name, of in aspects.items()]
    for name in ("share_of_voice", "top_keywords", "aspects", "errors_by_code"):
        if rows := lists[name]:
            print(f"\n{name.replace('_', ' ')}")
            print_table(list(rows[0]), [list(row.values()) for row in rows])


async def _summary(project_id: str) -> "AnalyticsSummary":
    async with open_opilio_for_cli() as opilio:
        await _check_project(opilio, project_id)
        return await opilio.analytics.summary(project_id)


async def _check_project(opilio: Any, project_id: str) -> None:
    """Refuses an unknown project; a project with batches only counts as known."""
    if not await opilio.analytics.knows(project_id):
        await opilio.project_insights.project(project_id)


@app.command()
def errors(
    project_id: str,
    retryable: Annotated[
        bool, typer.Option("--retryable", help="Only errors that may pass, of posts that are still missing.")
    ] = False,
    json: Json = False,
) -> None:
    """Lists why posts of a project could not be crawled, by category and code."""

    async def work() -> list[Any]:
        async with open_opilio_for_cli() as opilio:
            await _check_project(opilio, project_id)
            return list(await opilio.analytics.errors(project_id, retryable=retryable))

    found = run_async(work())
    rows = [(e.error_category, e.error_code, e.errors, e.posts, e.last_at) for e in found]
    columns = ("category", "code", "errors", "posts", "last")
    show(found, json, lambda: print_table(columns, rows, "no errors"))


@app.command()
def retry(project_id: str, json: Json = False) -> None:
    """Crawls failed posts of a project again, where that may help."""

    async def work() -> "RetriedErrors":
        async with open_opilio_for_cli() as opilio:
            return await opilio.projects.retry_errors(project_id, by=actor())

    sent = run_async(work())
    show(sent, json, lambda: _print_retried(sent))


def _print_retried(sent: "RetriedErrors") -> None:
    for task in sent.tasks:
        print(f"{task.platform}: {task.posts} posts sent out again as {sent.job_id}")
    if not sent.tasks:
        print("no posts to crawl again")
    if sent.without_link:
        note(f"{sent.without_link} posts have no link and cannot be crawled again")
    if sent.more:
        note("there are more: run the command again")


class FileFormat(StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


@app.command()
def export(
    project_id: str,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="Parquet needs pip install 'opilio[parquet]'.")
    ] = FileFormat.CSV,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; without it, standard output.")
    ] = None,
    since: Since = None,
    until: Until = None,
    json: Json = False,
) -> None:
    """Writes every post of a project with its analysis."""
    if output is None and file_format is FileFormat.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is not for a terminal: name a file with --output")
    size = run_async(_export(project_id, file_format, output, since, until))
    if output is not None:
        show({"file": str(output), "bytes": size}, json, lambda: note(f"{output}: {size:,} bytes"))


async def _export(
    project_id: str, file_format: str, output: Path | None, since: datetime | None, until: datetime | None
) -> int:
    from opilio.insights.export import FORMATS
    from opilio.insights.post_filter import PostFilter

    chosen = FORMATS[file_format]
    chosen.check()
    size = 0
    async with open_opilio_for_cli() as opilio:
        await _check_project(opilio, project_id)
        batches = opilio.analytics.export(project_id, PostFilter(since=since, until=until))
        with _opened(output) as file:
            async for piece in chosen.write(batches):
                size += file.write(piece)
    return size


def _opened(output: Path | None) -> Any:
    return nullcontext(sys.stdout.buffer) if output is None else output.open("wb")


@app.command()
def classify(
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")] = False,
    stage: Annotated[
        list[str] | None, typer.Option(help="Replaces a stage: sentiment=my_package.models:PhoBert.")
    ] = None,
) -> None:
    """Reads JSON lines {id, text, lang?} and prints the result of the stages for each text."""
    from opilio.analytics.pipeline import load_pipeline

    pipeline = load_pipeline(dict(_setting(text) for text in stage or []))
    for lines in _batches(_read(sys.stdin.buffer)):
        analyses = pipeline.analyse([line.text for line in lines], [line.lang for line in lines])
        for line, analysis in zip(lines, analyses, strict=True):
            answer = _answer(line, analysis)
            print(msgspec.json.encode(answer).decode() if json else _sentence(answer))


def _setting(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r}: write stage=package.module:Class")
    return name, path


def _read(stream: Iterable[bytes]) -> Iterator[TextLine]:
    decoder = msgspec.json.Decoder(TextLine)
    for number, raw in enumerate(stream, 1):
        if not raw.strip():
            continue
        try:
            yield decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            print(f"line {number}: {error}", file=sys.stderr)
            raise typer.Exit(1) from error


def _batches(lines: Iterator[TextLine]) -> Iterator[list[TextLine]]:
    while together := list(islice(lines, _TOGETHER)):
        yield together


def _answer(line: TextLine, analysis: Any) -> dict[str, Any]:
    from opilio.analytics.batch import aspects_as_json

    sentiment = analysis.sentiment
    return {
        "id": line.id,
        "language": analysis.document.language,
        "sentiment": sentiment.label if sentiment else None,
        "score": sentiment.score if sentiment else None,
        "probabilities": sentiment.probabilities if sentiment else None,
        "intent": analysis.intent.label,
        "keywords": [keyword.word for keyword in analysis.topics.keywords],
        "aspects": aspects_as_json(analysis),
    }


def _sentence(answer: dict[str, Any]) -> str:
    aspects = ", ".join(f"{name} {found['sentiment']}" for name, found in answer["aspects"].items())
    words = ", ".join(answer["keywords"])
    known = answer["sentiment"] is not None
    sentiment = f"{answer['sentiment']} {answer['score']:+.2f}" if known else "no sentiment"
    return f"{answer['id']}: {answer['language']}, {sentiment}, {answer['intent']}; {aspects or '-'}; {words or '-'}"
