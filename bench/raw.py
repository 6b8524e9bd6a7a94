"""The raw limit: pgbench runs the very statements of a pull and a submit, with nothing around them."""

import re
import subprocess
from pathlib import Path

from opilio.adapters.postgres import Statement
from opilio.adapters.postgres.embedded import binary
from opilio.adapters.postgres.pool import PINNED_PLANS
from opilio.crawl.sql import QUERIES


def filled(statement: Statement, **values: str) -> str:
    """A statement with SQL in the place of its parameters."""
    order = statement.bind(values)
    return re.sub(r"\$(\d+)", lambda match: f"({order[int(match.group(1)) - 1]})", statement.sql)


def gathered(lock: str) -> str:
    """The locked jobs in three variables instead of in rows: all that the other statements need of them."""
    head, cut, _ = lock.partition("select l.*")
    if not cut or "j.ctid::text as row_at, j.xmin::text as version" not in head:
        raise RuntimeError("lock_jobs has changed its shape: adapt this bench")
    return f"{head} select array_agg(job_id) as ids, array_agg(row_at) as rows, min(version) as version from locked"


def finished(ids: str, rows: str) -> str:
    """The JSON of `finish_jobs`, as the product writes it for what bench.load submits of a page that is as it was."""
    # pgbench takes a colon before a letter or a digit for a variable of its own, also within quotes.
    constant = (
        '"as_before": true,"duration": 0.8,"digest": "ABEiM0RVZneImaq7zN3u/w==",'
        '"subject": "https//shop.example/product/1234567"}'
    )
    said = {
        "row_at": "x.row_at",
        "version": ":version",
        "job_id": "x.job_id",
        "result_id": "opilio_uuid7()",
        "next_run": "extract(epoch from now()) + 86400",
    }
    pieces = " || ".join(f"""'"{name}": "' || ({value})::text || '",'""" for name, value in said.items())
    row = f"'{{' || {pieces} || '{constant}'"
    return f"(select '[' || string_agg({row}, ',') || ']' from unnest({ids}, {rows}) x(job_id, row_at))::json"


def script(batch: int) -> str:
    """One cycle: pull a batch, submit it, as crawl.pull and crawl.submit do."""
    ids = ":ids::uuid[]"
    lock = filled(
        QUERIES.without("lock_jobs", "found", "adaptive"), locked="'locked'", tokens=TOKENS.format(batch), slots=str(batch), bots="array['bench']", first_slots="array[1]", free_queues="array['http']", start_priorities="array[101]",
        start_ids="array['00000000-0000-0000-0000-000000000000']::uuid[]",
        fleet_gated="false", look_bots="array['bench']", look_most="array[1000]",
        now="null",
    )  # fmt: skip
    skipped = filled(QUERIES.held_elsewhere, queues="array['http']", host_ids="null", most="200", now="null")
    finish = filled(
        QUERIES.without("finish_jobs", "rare", "adaptive"), jobs=finished(ids, ":rows::text[]"), alerts_known="false",
        now="null",
    )  # fmt: skip
    return "\n".join(
        [
            f"{gathered(lock)} \\gset",
            *(
                [f"{skipped};"] if batch == 1 else []
            ),  # with hundreds of locks out it is not counted each time
            f"{finish};",
        ]
    )


TOKENS = "decode(repeat('00112233445546778899aabbccddeeff', {}), 'hex')"  # the process draws them


def jobs_per_second(url: str, folder: Path, *, batch: int, clients: int, seconds: int) -> float:
    file = folder / f"cycle_{batch}.sql"
    file.write_text(script(batch))
    settings = " ".join(f"-c {name}={value}" for name, value in PINNED_PLANS.items())
    done = subprocess.run(
        [str(binary("pgbench")), "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(seconds), "-f", str(file), url],
        env={"PGOPTIONS": settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode or not found:
        raise RuntimeError(done.stderr[-2000:])
    return float(found.group(1)) * batch
