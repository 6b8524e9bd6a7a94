"""One hot row for each policy: its state, its place among the due ones and its job."""

from alembic import op

from opilio.migrations.script import run_sql

revision = "0024"
down_revision = "0027"


def upgrade() -> None:
    _in_steps("up")


def downgrade() -> None:
    _in_steps("down")


def _in_steps(direction: str) -> None:
    """Empty tables that follow the others, then their rows, then the exchange; each step may be run again."""
    run_sql(__file__, direction)
    with op.get_context().autocommit_block():
        run_sql(__file__, f"{direction}_fill")
    run_sql(__file__, f"{direction}_swap")
