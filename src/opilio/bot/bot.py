"""The `Bot` class: a server, a token, and a function that crawls."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import httpx2

from opilio.bot.client import ControlPlane
from opilio.bot.errors import BotError, Misconfigured, NotAllowed
from opilio.bot.handlers import QUEUES, Crawl, Handler, capabilities_of, scopes_of
from opilio.bot.job_report import JobReport
from opilio.bot.pull_loop import Limits, PullLoop
from opilio.contracts.bot_api import Queue

F = TypeVar("F", bound=Crawl)


class Bot:
    """Pulls jobs, calls your function, submits what it returns.

        bot = Bot("http://127.0.0.1:8000", token="…")

        @bot.handler()
        async def crawl(job: Job) -> Result:
            return Result(price="19.90", currency="EUR")

        bot.run()

    `concurrency` is how many crawls run at once; `prefetch` how many more jobs are pulled ahead (they are locked
    meanwhile, so 0 is fair to other bots). `wait_seconds` is the long poll. On SIGTERM or SIGINT the bot stops
    pulling, releases jobs that have not started, and lets running crawls finish for `grace_seconds`; a second
    signal releases those too. `observe` is called with a `JobReport` for each job.
    """

    def __init__(
        self,
        server: str,
        token: str,
        *,
        bot_id: str | None = None,
        capabilities: Sequence[Queue] | None = None,
        concurrency: int = 10,
        prefetch: int = 0,
        wait_seconds: float = 5.0,
        grace_seconds: float = 30.0,
        observe: Callable[[JobReport], None] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        _check_address(server, token)
        _check_capabilities(capabilities or ())
        self.server = server
        self.bot_id = bot_id
        self._token = token
        self._capabilities = list(capabilities) if capabilities else None
        self._limits = _checked(Limits(concurrency, prefetch, wait_seconds, grace_seconds))
        self._observe = observe or _ignore
        self._transport = transport
        self._handlers: list[Handler] = []
        self._loop: PullLoop | None = None

    def handler(self, *, queue: Queue | None = None, domain: str | None = None) -> Callable[[F], F]:
        """Marks the function that crawls: everything, one queue, one domain with its subdomains, or both."""
        if queue is not None and queue not in QUEUES:
            raise Misconfigured(f"unknown queue {queue!r}; use one of {', '.join(QUEUES)}")

        def register(crawl: F) -> F:
            self._handlers.append(Handler(crawl, queue, domain.lower() if domain else None))
            return crawl

        return register

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT; for `if __name__ == "__main__"`. One line on stderr says that it is connected.

        A wrong token or configuration is one line too, and exit code 1.
        """
        try:
            asyncio.run(self.serve(signals=True, announce=True))
        except BotError as error:
            sys.stderr.write(f"{explain(error, self.server)}\n")
            raise SystemExit(1) from None

    async def serve(self, *, until_idle: bool = False, signals: bool = False, announce: bool = False) -> None:
        """Runs until `stop()`, or, with `until_idle`, until there is nothing left to pull.

        `announce` writes a line to stderr when the server has answered for the first time.
        """
        if not self._handlers:
            raise Misconfigured("the bot has no handler; add one with @bot.handler()")
        if self._loop is not None:
            raise Misconfigured("the bot is already running")
        scopes = scopes_of(self._handlers, self._capabilities or capabilities_of(self._handlers))
        async with ControlPlane(self.server, self._token, self.bot_id, self._transport) as plane:
            connected = self._announce(plane) if announce else None
            self._loop = PullLoop(plane, self._handlers, scopes, self._limits, self._observe, connected)
            try:
                with _stopped_by_signals(self) if signals else contextlib.nullcontext():
                    await self._loop.run(until_idle=until_idle)
            finally:
                self._loop = None

    def _announce(self, plane: ControlPlane) -> Callable[[], None]:
        def connected() -> None:
            sys.stderr.write(f"The bot {plane.bot_id} is connected to {self.server} and waits for jobs.\n")
            sys.stderr.flush()

        return connected

    def stop(self) -> None:
        """Stops cleanly; called again, without waiting for running crawls."""
        loop = self._loop
        if loop is None:
            return
        if loop.stopping:
            loop.stop_now()
        else:
            loop.stop()


@contextlib.contextmanager
def _stopped_by_signals(bot: Bot) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    caught = (signal.SIGTERM, signal.SIGINT)
    try:
        for number in caught:
            loop.add_signal_handler(number, bot.stop)
    except NotImplementedError:
        # Windows has no signal handlers on the loop: Ctrl-C raises KeyboardInterrupt there.
        yield
        return
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def explain(error: BotError, server: str) -> str:
    """One line that says what is wrong."""
    if isinstance(error, NotAllowed):
        hint = "`opilio bots token BOT_ID` prints a new one"
        return f"{server} does not accept the token: {error.message} ({error.code}); {hint}."
    return f"The bot cannot run: {error}"


def _check_address(server: str, token: str) -> None:
    if not server.startswith(("http://", "https://")):
        raise Misconfigured(f"the server {server!r} is not an http:// or https:// address")
    if not token:
        raise Misconfigured("the token is empty; `opilio bots token BOT_ID` prints one")


def _check_capabilities(capabilities: Sequence[Queue]) -> None:
    if unknown := [name for name in capabilities if name not in QUEUES]:
        raise Misconfigured(f"unknown capability {unknown[0]!r}; use {', '.join(QUEUES)}")


def _checked(limits: Limits) -> Limits:
    if limits.concurrency < 1 or limits.prefetch < 0:
        raise Misconfigured("concurrency must be at least 1 and prefetch at least 0")
    if not 0 <= limits.wait_seconds <= 30:
        raise Misconfigured("wait_seconds must be between 0 and 30")
    return limits


def _ignore(_: JobReport) -> None:
    """The default of `observe`."""
