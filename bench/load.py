"""The load: bots on raw sockets, in a process of its own so that it costs as little as it can.

    python -m bench.load PORT SECONDS BATCH BOT=TOKEN …

Each bot pulls BATCH jobs and submits them, again and again, on one connection. Printed are the jobs done in a second and the
processor seconds that this process took.
"""

import asyncio
import sys
import time

import msgspec
import uvloop


class Job(msgspec.Struct):
    job_id: str
    lock_token: str


class Pulled(msgspec.Struct):
    jobs: list[Job]


class Answer(msgspec.Struct):
    data: Pulled


_read = msgspec.json.Decoder(Answer).decode
RESULT = '"success":true,"price":19.99,"currency":"USD","title":"A lamp","in_stock":true,"crawl_duration":0.8'


class Bot(asyncio.Protocol):
    """A connection that asks again as soon as it is answered: no task and no future, whose time would be the bots'."""

    transport: asyncio.Transport

    def __init__(self, name: str, token: str, batch: int, until: float) -> None:
        self.name, self.batch, self.until = name, batch, until
        self.head = f"HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: "
        self.pull = self.request("pull", f'{{"bot_id":"{name}","max_jobs":{batch}}}')
        self.done = 0
        self.answered = b""
        self.missing = 0
        self.held: list[Job] = []
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def request(self, path: str, body: str) -> bytes:
        return f"POST /api/crawl/{path}/ {self.head}{len(body)}\r\n\r\n{body}".encode()

    def submit(self, jobs: list[Job]) -> bytes:
        if self.batch == 1:
            job = jobs[0]
            said = f'"job_id":"{job.job_id}","lock_token":"{job.lock_token}",{RESULT}'
            return self.request("submit", f'{{"bot_id":"{self.name}",{said}}}')
        items = ",".join(
            f'{{"job_id":"{job.job_id}","lock_token":"{job.lock_token}",{RESULT}}}' for job in jobs
        )
        return self.request("submit/batch", f'{{"bot_id":"{self.name}","results":[{items}]}}')

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(self.pull)

    def data_received(self, data: bytes) -> None:
        self.answered += data
        if not self.missing:
            head, end, _ = self.answered.partition(b"\r\n\r\n")
            if not end:
                return
            length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            self.missing = len(head) + len(end) + length
        if len(self.answered) >= self.missing:
            answered, self.answered, self.missing = self.answered, b"", 0
            self.go_on(*answered.split(b"\r\n\r\n", 1))

    def go_on(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"HTTP/1.1 200"):
            self.leave(f"{head.splitlines()[0].decode()}: {body[:300].decode()}")
        elif self.held:
            self.done += len(self.held)
            self.held = []
            if time.monotonic() < self.until:
                self.transport.write(self.pull)
            else:
                self.leave()
        elif held := _read(body).data.jobs:
            self.held = held
            self.transport.write(self.submit(held))
        else:
            self.leave("the queue ran empty: seed more jobs")

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.left.done():
            self.leave(f"the server closed the connection: {exc}")

    def leave(self, fault: str = "") -> None:
        if fault:
            self.left.set_exception(SystemExit(fault))
        else:
            self.left.set_result(None)
        self.transport.close()


async def main(port: int, seconds: float, batch: int, *logins: str) -> None:
    began = time.monotonic()
    bots = [Bot(*login.split("=", 1), batch, began + seconds) for login in logins]
    for bot in bots:
        await asyncio.get_running_loop().create_connection(lambda bot=bot: bot, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(bot.left for bot in bots))
    print(sum(bot.done for bot in bots) / (time.monotonic() - began), time.process_time())


if __name__ == "__main__":
    _, port, seconds, batch, *logins = sys.argv
    uvloop.run(main(int(port), float(seconds), int(batch), *logins))
