"""The trace of a project goes into its progress webhooks."""

from opilio.migrations.script import run_sql

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
