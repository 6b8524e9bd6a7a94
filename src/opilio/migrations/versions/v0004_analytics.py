"""Analytics: posts, their comments, crawl errors, and which batches were analysed."""

from opilio.migrations.script import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql(__file__, "up")


def downgrade() -> None:
    run_sql(__file__, "down")
