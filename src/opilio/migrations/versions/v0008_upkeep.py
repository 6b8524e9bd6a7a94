"""What was counted for finished projects is dropped in time; policies by priority come from an index."""

from opilio.migrations.script import run_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
