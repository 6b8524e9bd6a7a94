"""Keyword projects: projects, their tasks, warnings, and the embedded project state."""

from opilio.migrations.script import run_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
