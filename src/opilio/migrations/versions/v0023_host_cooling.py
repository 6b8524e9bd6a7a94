"""When hosts were cooling down."""

from opilio.migrations.script import run_sql

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
