"""A submit may use what was read when its job was locked; docs/adr/0033-known-locks.md says what makes that safe.

The table of hosts is small; its index takes a moment. The trigger waits for those who write policies, and they for it.
"""

from opilio.migrations.script import run_sql

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
