"""Price changes in the order of time, for the page that lists them."""

from opilio.migrations.script import run_sql

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
