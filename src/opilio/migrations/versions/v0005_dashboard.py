"""What the dashboard keeps: a row of figures for each minute, and views that people saved."""

from opilio.migrations.script import run_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
