"""Jobs that are done carry their result and their event from here on; processes before 0028 would not find them."""

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Nothing but the number: a process of the version before the last must not run beside this one."""


def downgrade() -> None:
    """Going on to 0024 makes three rows of one again."""
