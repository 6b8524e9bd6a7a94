"""The adaptive schedule: what a policy asks for, what was learnt about it, and the budgets that pay for it."""

from opilio.migrations.script import run_sql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
