"""Room in the two indexes in which a pull and a submit write the same key again: the new entry fits beside the old one.

Without it a full page is searched for dead entries again and again. Pages that exist are filled as they are. The lock lets everybody
read and write.
"""

from alembic import op

revision = "0034"
down_revision = "0033"
INDEXES = ("crawl_state_pkey", "crawl_state_job")


def upgrade() -> None:
    for index in INDEXES:
        op.execute(f"alter index {index} set (fillfactor = 50)")


def downgrade() -> None:
    for index in INDEXES:
        op.execute(f"alter index {index} reset (fillfactor)")
