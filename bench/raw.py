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


def same(value: str, kind: str, batch: int) -> str:
    return f"array_fill({value}::{kind}, array[{batch}])"


def gathered(lock: str) -> str:
    """The locked jobs in three variables instead of in rows: all that the other statements need of them."""
    head, cut, _ = lock.partition("select l.*")
    returning = head.replace("returning c.ord, j.job_id", "returning c.ord, j.policy_id, j.job_id")
    if not cut or returning == head:
        raise RuntimeError("lock_jobs has changed its shape: adapt this bench")
    return f"{returning} select array_agg(job_id) as ids, array_agg(policy_id) as policies, array_agg(host_id) as hosts from locked"


def fixed_schedule(batch: int) -> dict[str, str]:
    """What a policy with a fixed schedule learns from a visit: nothing."""
    kinds = {
        "pools": "text", "early": "timestamptz", "etags": "text", "last_modifieds": "text", "rate_shapes": "float8",
        "rate_days": "float8", "daily_hours": "bytea", "intervals": "float8", "prices_used": "float8",
        "surprises": "real", "gaps": "real", "siblings": "boolean",
    }  # fmt: skip
    return {name: same("null", kind, batch) for name, kind in kinds.items()} | {
        name: same("0", "int", batch) for name in ("visits", "changes_seen")
    }


def script(batch: int) -> str:
    """One cycle: pull a batch, submit it, as crawl.pull and crawl.submit do."""
    ids, policies, hosts = ":ids::uuid[]", ":policies::uuid[]", ":hosts::int[]"
    nothing = {
        kind: f"array_fill(null::{kind}, array[{batch}])" for kind in ("text", "jsonb", "bytea", "uuid")
    }
    lock = filled(
        QUERIES.lock_jobs, locked="'locked'", bots=same("'bench'", "text", batch), queues="array['http']", free_queues="array['http']",
        fleet_gated="false", host_ids="'{}'", allowed="'{}'", now="null",
    )  # fmt: skip
    look = filled(QUERIES.open_gates, queues="array['http']", fleet_gated="false", now="null")
    skipped = filled(QUERIES.held_elsewhere, queues="array['http']", host_ids="null", most="200", now="null")
    take = filled(QUERIES.take_jobs, job_ids=ids, now="null")
    finish = filled(
        QUERIES.finish_jobs,
        job_ids=ids, policy_ids=policies, states=same("'done'", "text", batch),
        by=same("'bot bench'", "text", batch), reasons=same("'result accepted'", "text", batch),
        errors=nothing["text"], error_codes=nothing["text"],
        next_runs=same("(now() + interval '1 day')", "timestamptz", batch),
        failure_counts=same("0", "int", batch), error_rates=same("0", "real", batch),
        result_ids=f"array(select opilio_uuid7() from generate_series(1, {batch}))",
        bots=same("'bench'", "text", batch), prices=same("19.99", "numeric", batch),
        currencies=same("'USD'", "text", batch), titles=same("'A lamp'", "text", batch),
        in_stocks=same("true", "boolean", batch), datas=nothing["jsonb"], html_hashes=nothing["text"],
        durations=same("0.8", "float8", batch), html_bodies=nothing["text"], html_blobs=nothing["text"],
        last_datas=nothing["jsonb"], digests=same("'\\x00112233445566778899aabbccddeeff'", "bytea", batch),
        answers=same("'" + ANSWER + "'", "jsonb", batch),
        event_types=same("'crawl.job.completed'", "text", batch),
        subjects=same("'https//shop.example/product/1234567'", "text", batch),
        events=same("'" + EVENT + "'", "jsonb", batch), now="null",
        **fixed_schedule(batch),
    )  # fmt: skip
    changes = filled(
        QUERIES.add_changes,
        policy_ids=" || ".join([policies] * 4), job_ids=" || ".join([ids] * 4),
        fields=" || ".join(same(f"'{field}'", "text", batch) for field in ("price", "currency", "title", "in_stock")),
        olds=" || ".join([nothing["jsonb"]] * 4), news=" || ".join([same("'\"USD\"'", "jsonb", batch)] * 4),
        ats=same("now()", "timestamptz", 4 * batch),
    )  # fmt: skip
    reopen = filled(QUERIES.reopen_gates, host_ids=hosts, now="null")
    return "\n".join(
        [
            f"{look};",
            f"{gathered(lock)} \\gset",
            f"{skipped};",
            "begin;", f"{take};", f"{finish};", f"{changes};", f"{reopen};", "commit;",
        ]
    )  # fmt: skip


# pgbench takes a colon before a letter or a digit for a variable of its own, also within quotes.
ANSWER = (
    '{"result_id": "01a1de96-e32e-78c4-8dfa-700f409204c1","job_id": "01a1de96-e32e-78c4-8dfa-700f409204c1",'
    '"price": 19.99,"currency": "USD","policy_next_run": "2026-11-16T09-45-30.123456Z","status": "done"}'
)
EVENT = (
    '{"job_id": "01a1de96-e32e-78c4-8dfa-700f409204c1","policy_id": "01a1de96-e32e-78c4-8dfa-700f409204c1",'
    '"result_id": "01a1de96-e32e-78c4-8dfa-700f409204c1","url": "https//shop.example/product/1234567","price": 19.99,'
    '"currency": "USD","title": "A lamp","in_stock": true,"data": null,"html_hash": null,"crawl_duration": 0.8,'
    '"crawled_at": "2026-11-16T09-45-30.123456Z","bot_id": "bench","changed": ["price","currency","title","in_stock"]}'
)


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
