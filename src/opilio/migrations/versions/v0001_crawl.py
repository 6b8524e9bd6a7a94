"""URL jobs: policies, hosts, jobs, results, bots, operators, the outbox."""

from opilio.migrations.script import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
