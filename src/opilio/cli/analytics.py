"""`opilio analytics`: the stages on texts of one's own."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from opilio.cli.context import open_opilio_for_cli, run_async
from opilio.cli.output import Json, print_fields, show

app = typer.Typer(no_args_is_help=True, help="What posts say: the analysis, tried on texts of your own.")
_TOGETHER = 256


class TextLine(msgspec.Struct):
    id: str | int
    text: str
    lang: str | None = None


@app.command()
def summary(project_id: str, json: Json = False) -> None:
    """Shows what the posts of a project say: volume, feeling, wishes, weight, and what went wrong."""
    figures = run_async(_summary(project_id))
    show(figures, json, lambda: print_fields(figures, hide=("top_posts",)))


async def _summary(project_id: str) -> dict[str, Any]:
    async with open_opilio_for_cli() as opilio:
        await opilio.project_insights.project(project_id)  # an unknown project is said to be unknown
        return await opilio.analytics.summary(project_id)


@app.command()
def classify(
    json: Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")] = False,
    stage: Annotated[
        list[str] | None, typer.Option(help="Replaces a stage: sentiment=my_package.models:PhoBert.")
    ] = None,
) -> None:
    """Reads JSON lines {id, text, lang?} and says what the stages make of each text."""
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

    return {
        "id": line.id,
        "language": analysis.document.language,
        "sentiment": analysis.sentiment.label,
        "score": analysis.sentiment.score,
        "probabilities": analysis.sentiment.probabilities,
        "intent": analysis.intent.label,
        "keywords": [keyword.word for keyword in analysis.topics.keywords],
        "aspects": aspects_as_json(analysis),
    }


def _sentence(answer: dict[str, Any]) -> str:
    aspects = ", ".join(f"{name} {found['sentiment']}" for name, found in answer["aspects"].items())
    words = ", ".join(answer["keywords"])
    return f"{answer['id']}: {answer['sentiment']} {answer['score']:+.2f}, {answer['intent']}; {aspects or '-'}; {words or '-'}"
