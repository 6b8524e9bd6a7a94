"""The first values of a page are one row; archived answers are kept short."""

from opilio.migrations.script import run_sql

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
