"""Retention, re-enabling endpoints and replaying dead letters go in steps."""

from opilio.migrations.script import run_sql

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
