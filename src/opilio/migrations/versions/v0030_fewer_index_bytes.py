"""Indexes that cost a job less; docs/adr/0029-narrow-indexes.md says why each is as it is."""

from alembic import op

revision = "0030"
down_revision = "0029"

# A queue is known by its first letter: one byte in an index instead of five.
STATE = {
    "crawl_state_bot_locks": "(locked_by, locked_until) where place = 'locked'",
    "crawl_state_host_locks": "((queue::\"char\"), host_id) where place = 'locked'",
    "crawl_state_host_jobs": "(host_id, (queue::\"char\"), priority desc, created_at) where place in ('free', 'gated')",
}
ARCHIVE = {
    "job_archive_jobs_of_policy": "(policy_id)",
    "job_archive_bots": (
        "using brin (locked_by text_bloom_ops(n_distinct_per_range = 32)) with (pages_per_range = 16, autosummarize = on)"
    ),
}
STATE_BEFORE = {
    "crawl_state_expiry": "(locked_until) where place = 'locked'",
    "crawl_state_of_bot": "(locked_by) where place = 'locked'",
    "crawl_state_held": "(queue, host_id) where place = 'locked'",
    "crawl_state_of_host": "(host_id, queue, priority desc, job_id) where place in ('free', 'gated')",
}
ARCHIVE_BEFORE = {"job_archive_policy": "(policy_id, job_id)", "job_archive_bot": "(locked_by, job_id)"}


def upgrade() -> None:
    _exchange(STATE_BEFORE | ARCHIVE_BEFORE, STATE, ARCHIVE)


def downgrade() -> None:
    _exchange(STATE | ARCHIVE, STATE_BEFORE, ARCHIVE_BEFORE)


def _exchange(before: dict[str, str], state: dict[str, str], archive: dict[str, str]) -> None:
    """Makes the new indexes beside the old ones while everybody works on, then drops the old ones in one short step."""
    op.get_bind().exec_driver_sql("select 1")
    with op.get_context().autocommit_block():
        for name, definition in state.items():
            _create(name, "crawl_state", definition)
        for name, definition in archive.items():
            _create_by_day(name, definition)
        for name in before:
            op.execute(f"drop index if exists {name}")


def _create(name: str, table: str, definition: str) -> None:
    if _one(f"select 1 from pg_index where indexrelid = to_regclass('{name}') and not indisvalid"):
        op.execute(f"drop index {name}")  # left by a try that was cut short
    op.execute("set lock_timeout = '60s'")  # it waits for all who write, but nobody waits for it
    op.execute(f"create index concurrently if not exists {name} on {table} {definition}")
    op.execute("reset lock_timeout")


def _create_by_day(name: str, definition: str) -> None:
    op.execute(f"create index if not exists {name} on only job_archive {definition}")
    days = op.get_bind().exec_driver_sql(
        "select i.inhrelid::regclass::text from pg_inherits i where i.inhparent = 'job_archive'::regclass order by 1"
    )
    for (day,) in days.fetchall():
        attached = (
            "select 1 from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid "
            f"where i.inhparent = '{name}'::regclass and x.indrelid = '{day}'::regclass"
        )
        if not _one(attached):
            child = f"{day}_{name.removeprefix('job_archive_')}"
            _create(child, day, definition)
            op.execute(f"alter index {name} attach partition {child}")


def _one(query: str) -> bool:
    return op.get_bind().exec_driver_sql(query).first() is not None
