"""`opilio bot run`: runs the reference bot."""

import asyncio
import logging
import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

app = typer.Typer(help="Run the reference bot.", no_args_is_help=True)

_QUEUES = ("http", "js", "special")


@app.callback()
def bots() -> None:
    """Makes Typer keep `run` as a subcommand although it is the only one."""


@app.command()
def run(
    server: Annotated[
        str, typer.Option(envvar="OPILIO_SERVER", help="Address of the Opilio server.", show_default=True)
    ] = "http://127.0.0.1:8000",
    token: Annotated[
        str,
        typer.Option(
            envvar="OPILIO_BOT_TOKEN", help="Token of the bot; `opilio bots token BOT_ID` creates one."
        ),
    ] = "",
    bot_id: Annotated[
        str | None,
        typer.Option(
            envvar="OPILIO_BOT_ID", help="Id of the bot; default: the one that the token belongs to."
        ),
    ] = None,
    capabilities: Annotated[
        str, typer.Option(envvar="OPILIO_BOT_CAPABILITIES", help="Queues to pull jobs from: http,js,special.")
    ] = "http",
    domain: Annotated[
        list[str] | None,
        typer.Option(help="Take jobs of this host and its subdomains only. Repeatable."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(envvar="OPILIO_BOT_CONCURRENCY", min=1, help="Crawls that run at the same time.")
    ] = 10,
    allow_private: Annotated[
        str,
        typer.Option(
            envvar="OPILIO_BOT_ALLOW_PRIVATE",
            help="Private addresses that may be crawled: CIDRs separated by commas, or true.",
        ),
    ] = "",
    browser: Annotated[
        str | None,
        typer.Option(
            envvar="OPILIO_BOT_BROWSER", help="Path of Chromium for the queue js; default: an installed one."
        ),
    ] = None,
    user_agent: Annotated[str | None, typer.Option(help="User agent that the bot sends.")] = None,
    raw_html: Annotated[bool, typer.Option("--raw-html", help="Submit the HTML of pages too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing left to pull.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line for each job.")] = False,
) -> None:
    """Pulls and crawls jobs until Ctrl-C."""
    from opilio.bot.bot import explain
    from opilio.bot.errors import BotError

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
    queues, domains = _queues(capabilities), domain or []
    options = _options(allow_private, browser, user_agent, raw_html=raw_html)
    work = _serve(server, token, bot_id, queues, domains, concurrency, options, once=once, as_json=as_json)
    try:
        asyncio.run(work)
    except BotError as error:
        typer.echo(f"opilio bot run: {explain(error, server)}", err=True)
        raise typer.Exit(1) from None


async def _serve(
    server: str,
    token: str,
    bot_id: str | None,
    queues: list[Any],
    domains: list[str],
    concurrency: int,
    options: Any,
    *,
    once: bool,
    as_json: bool,
) -> None:
    import stamina.instrumentation

    from opilio.bot.reference import reference_bot

    # Its hook may write to stdout, which is for the jobs; the SDK itself logs when the server does not answer.
    stamina.instrumentation.set_on_retry_hooks([])
    async with reference_bot(
        server,
        token,
        bot_id=bot_id,
        capabilities=queues,
        domains=domains,
        concurrency=concurrency,
        options=options,
        observe=_print_json if as_json else _print_line,
    ) as bot:
        await bot.serve(until_idle=once, signals=True, announce=not once and not as_json)


def _queues(text: str) -> list[Any]:
    queues = [word.strip() for word in text.split(",") if word.strip()]
    if not queues or (unknown := [queue for queue in queues if queue not in _QUEUES]):
        wrong = unknown[0] if queues else text
        raise typer.BadParameter(f"unknown capability {wrong!r}; use {', '.join(_QUEUES)}")
    return queues


def _options(allow_private: str, browser: str | None, user_agent: str | None, *, raw_html: bool) -> Any:
    from opilio.bot.reference import Options
    from opilio.net.allowed_addresses import parse_allow

    try:
        allow = parse_allow(allow_private)
    except ValueError as error:
        raise typer.BadParameter(f"--allow-private: {error}") from error
    options = Options(allow=allow, browser=browser, keep_html=raw_html)
    return replace(options, user_agent=user_agent) if user_agent else options


def _print_json(report: Any) -> None:
    import msgspec

    print(msgspec.json.Encoder(decimal_format="number").encode(report).decode(), flush=True)


def _print_line(report: Any) -> None:
    if report.status == "done" and report.price is not None:
        found = f"{report.price} {report.currency or ''}"
    else:
        found = report.error_code or report.reason or ""
    print(f"{report.status:<8} {found:<24} {report.url}", flush=True)
