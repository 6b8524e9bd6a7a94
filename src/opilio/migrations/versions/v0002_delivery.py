"""What goes out: the event log, the local bus, webhooks, dead letters."""

from opilio.migrations.script import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
