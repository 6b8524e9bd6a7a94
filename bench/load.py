"""The load: bots on raw sockets, in a process of its own so that it costs as little as it can.

    python -m bench.load PORT SECONDS BATCH BOT=TOKEN …

Each bot pulls BATCH jobs and submits them, again and again, on one connection; the number of jobs done is printed.
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


class Bot:
    def __init__(self, port: int, name: str, token: str, batch: int) -> None:
        self.port, self.name, self.batch = port, name, batch
        self.head = f"HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: "
        self.pull = self.request("pull", f'{{"bot_id":"{name}","max_jobs":{batch}}}')
        self.done = 0

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

    async def live(self, until: float) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        while time.monotonic() < until:
            jobs = _read(await self.ask(self.pull)).data.jobs
            if not jobs:
                raise SystemExit("the queue ran empty: seed more jobs")
            await self.ask(self.submit(jobs))
            self.done += len(jobs)
        self.writer.close()

    async def ask(self, request: bytes) -> bytes:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        body = await self.reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{head.splitlines()[0].decode()}: {body[:300].decode()}")
        return body


async def main(port: int, seconds: float, batch: int, *logins: str) -> None:
    bots = [Bot(port, *login.split("=", 1), batch) for login in logins]
    began = time.monotonic()
    await asyncio.gather(*(bot.live(began + seconds) for bot in bots))
    print(sum(bot.done for bot in bots) / (time.monotonic() - began))


if __name__ == "__main__":
    _, port, seconds, batch, *logins = sys.argv
    uvloop.run(main(int(port), float(seconds), int(batch), *logins))
