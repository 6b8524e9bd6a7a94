"""Competitors in the order given."""

from opilio.migrations.script import run_sql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
