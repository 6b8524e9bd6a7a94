"""Keywords of a post in a table of their own, the project's time zone, and a digest of the posts by day."""

from opilio.migrations.script import run_sql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
