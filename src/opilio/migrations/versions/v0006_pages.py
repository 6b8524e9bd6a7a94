"""Indexes for pages of the dashboard that read too much without them."""

from opilio.migrations.script import run_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
