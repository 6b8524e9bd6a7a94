"""Comments and posts in languages without a sentiment model have no sentiment and are counted all the same."""

from opilio.migrations.script import run_sql

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
