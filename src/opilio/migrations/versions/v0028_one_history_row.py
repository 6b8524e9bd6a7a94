"""A job that is done may carry its result and its event; this version reads such rows, the next one writes them."""

from alembic import op

from opilio.migrations.script import run_sql

revision = "0028"
down_revision = "0024"

INDEXES = {
    "job_archive_outcome": "(outcome_id) where outcome_id is not null",
    "job_archive_seq": "(seq) where seq is not null",
}


def upgrade() -> None:
    run_sql(__file__, "up")
    with op.get_context().autocommit_block():
        run_sql(__file__, "up_urls")
        run_sql(__file__, "up_fill")
        for name, definition in INDEXES.items():
            _index(name, definition)
    run_sql(__file__, "up_views")


def _index(name: str, definition: str) -> None:
    """Day by day, so that whoever writes waits for a look at one day; not `concurrently`, which waits for processes that wait for us."""
    op.execute(f"create index if not exists {name} on only job_archive {definition}")
    days = op.get_bind().exec_driver_sql(
        "select i.inhrelid::regclass::text from pg_inherits i where i.inhparent = 'job_archive'::regclass"
    )
    for (day,) in days.fetchall():
        child = f"{day}_{name.removeprefix('job_archive_')}"
        if (
            op.get_bind()
            .exec_driver_sql(
                f"select 1 from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid "
                f"where i.inhparent = '{name}'::regclass and x.indrelid = '{day}'::regclass"
            )
            .first()
        ):
            continue
        op.execute(f"drop index if exists {child}")  # left by a try that was cut short
        op.execute(f"create index {child} on {day} {definition}")
        op.execute(f"alter index {name} attach partition {child}")


def downgrade() -> None:
    run_sql(__file__, "down")
    with op.get_context().autocommit_block():
        run_sql(__file__, "down_split")
        run_sql(__file__, "down_urls")
        run_sql(__file__, "down_views")
    run_sql(__file__, "down_rest")
