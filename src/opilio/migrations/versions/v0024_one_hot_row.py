"""One hot row for each policy: its state, its place among the due ones and its job."""

from alembic import op

from opilio.migrations.script import run_sql

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """In steps, each of which may be run again: an empty table that follows the old ones, its rows, the exchange."""
    run_sql(__file__, "up")
    with op.get_context().autocommit_block():
        run_sql(__file__, "fill")
    run_sql(__file__, "swap")


def downgrade() -> None:
    run_sql(__file__, "down")
