"""Value alerts: what to look for, and what each knows of each policy."""

from opilio.migrations.script import run_sql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
