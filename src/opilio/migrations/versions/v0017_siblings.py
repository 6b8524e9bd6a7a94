"""Changes of sibling pages: what a visit saw against what was expected, and how changes on a host come together."""

from opilio.migrations.script import run_sql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
