"""An event keeps what its row does not say elsewhere; answers may be kept short; room in the pages of the queue."""

from opilio.migrations.script import run_sql

revision = "0021"
down_revision = "0019"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
