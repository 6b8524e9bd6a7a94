"""PostgreSQL records every result and every analysed batch of a project; Redis becomes a cache of the counters."""

from opilio.migrations.script import run_sql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
