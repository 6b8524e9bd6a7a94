"""An event is written once, into the event log; the relay keeps a position instead of moving rows."""

from opilio.migrations.script import run_sql

revision = "0019"
down_revision = "0020"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
