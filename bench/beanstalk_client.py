"""Workers of beanstalkd on raw sockets, in a process of their own as the bots of Opilio are.

    python -m bench.beanstalk_client PORT JOBS WORKERS BYTES

Puts so many jobs, then every worker reserves and deletes one after the other until none is left; prints jobs a second.
"""

import asyncio
import sys
import time

import uvloop

_AT_ONCE = 500


async def main(port: int, jobs: int, workers: int, size: int) -> None:
    await _put(port, jobs, size)
    began = time.perf_counter()
    done = await asyncio.gather(*(_work(port) for _ in range(workers)))
    print(sum(done) / (time.perf_counter() - began))


async def _put(port: int, jobs: int, size: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    put = f"put 0 0 600 {size}\r\n".encode() + b"x" * size + b"\r\n"
    for first in range(0, jobs, _AT_ONCE):
        count = min(_AT_ONCE, jobs - first)
        writer.write(put * count)
        for _ in range(count):
            answer = await reader.readline()
            if not answer.startswith(b"INSERTED"):
                raise SystemExit(f"beanstalkd refused a job: {answer!r}")
    writer.close()


async def _work(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    while True:
        writer.write(b"reserve-with-timeout 0\r\n")
        word, *rest = (await reader.readline()).split()
        if word != b"RESERVED":
            writer.close()
            return done
        job, size = rest
        await reader.readexactly(int(size) + 2)
        writer.write(b"delete %b\r\n" % job)
        if await reader.readline() != b"DELETED\r\n":
            raise SystemExit("beanstalkd did not delete a reserved job")
        done += 1


if __name__ == "__main__":
    uvloop.run(main(*map(int, sys.argv[1:])))
