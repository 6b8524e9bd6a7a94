"""Jobs that a bot has locked are counted at every pull, from an index."""

from opilio.migrations.script import run_sql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
