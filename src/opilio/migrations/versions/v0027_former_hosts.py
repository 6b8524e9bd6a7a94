"""The hosts that a policy had before its URL changed."""

from alembic import op

from opilio.migrations.script import run_sql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """From the first step on no change is missed; what lies before is read from the archive, which may take a while."""
    run_sql(__file__, "up")
    with op.get_context().autocommit_block():
        run_sql(__file__, "up_fill")


def downgrade() -> None:
    run_sql(__file__, "down")
