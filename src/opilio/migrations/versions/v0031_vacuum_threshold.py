"""A small queue is vacuumed less often: each pass writes its pages and indexes again."""

from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    _set(10_000)


def downgrade() -> None:
    _set(2_000)


def _set(dead_rows: int) -> None:
    op.execute(f"alter table crawl_state set (autovacuum_vacuum_threshold = {dead_rows})")
