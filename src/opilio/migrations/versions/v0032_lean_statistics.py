"""Automatic analyze costs a job less; docs/adr/0031-lean-statistics.md says why these columns have statistics and others none.

The locks let everybody read and write; they wait for a vacuum or analyze alone, and give way to it.
"""

from alembic import op

from opilio.migrations.script import run_sql

revision = "0032"
down_revision = "0031"

# Columns by which statements choose rows, and of those only what does not change by the minute.
COMPARED = {
    "crawl_state": {
        "policy_id", "enabled", "host_id", "priority", "queue", "due_pool", "interval_days", "rate_days", "daily_hours",
        "surprise", "last_failed_at", "failure_count", "next_run_at", "last_success_at", "last_error_code",
    },
    "job_archive": {
        "job_id", "policy_id", "host_id", "status", "locked_by", "last_error_code", "finished_at", "outcome_id", "seq",
        "crawl_duration", "currency", "in_stock",
    },
}  # fmt: skip
ALREADY_NONE = {"place", "job_id", "run_at", "locked_until", "locked_by"}  # of crawl_state, since 0024
# Expressions have statistics of their own, and the largest target decides how many rows are read: 300 times as many.
EXPRESSIONS = {"crawl_state_host_locks": 1, "crawl_state_host_jobs": 2}
TARGETS = {"crawl_state": 10, "job_archive": 30}
NONE, USUAL = 0, -1


def upgrade() -> None:
    for table, compared in COMPARED.items():
        _set(table, {column: TARGETS[table] if column in compared else NONE for column in _columns(table)})
    _set_expressions(TARGETS["crawl_state"])
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
    _set_expressions(USUAL)
    _set("crawl_state", dict.fromkeys(_columns("crawl_state") - ALREADY_NONE, USUAL))
    _set("job_archive", dict.fromkeys(_columns("job_archive"), USUAL))


def _columns(table: str) -> set[str]:
    rows = op.get_bind().exec_driver_sql(
        f"select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0 and not attisdropped"
    )
    return {name for (name,) in rows}


def _set(table: str, targets: dict[str, int]) -> None:
    changes = (f"alter column {column} set statistics {target}" for column, target in sorted(targets.items()))
    op.execute(f"alter table {table} {', '.join(changes)}")


def _set_expressions(target: int) -> None:
    for index, number in EXPRESSIONS.items():
        op.execute(f"alter index {index} alter column {number} set statistics {target}")
