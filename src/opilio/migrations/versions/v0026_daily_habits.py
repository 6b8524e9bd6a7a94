"""How likely the pages of a host change daily, hour by hour."""

from opilio.migrations.script import run_sql

revision = "0026"
down_revision = "0023"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
