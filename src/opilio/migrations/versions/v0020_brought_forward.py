"""When a page was brought forward because its siblings changed."""

from opilio.migrations.script import run_sql

revision = "0020"
down_revision = "0018"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
