"""The hours in which pages of a host change daily."""

from opilio.migrations.script import run_sql

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
