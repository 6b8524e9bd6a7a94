"""Runs a SQL file as a revision: migrations are SQL, Alembic only keeps their order."""

from pathlib import Path
from typing import Any

from alembic import op


def run_sql(revision_file: str, direction: str) -> None:
    """Runs `NNNN_name.<direction>.sql` that lies beside the revision."""
    path = Path(revision_file)
    sql = path.with_name(f"{path.stem}.{direction}.sql").read_text(encoding="utf-8")

    async def execute(connection: Any) -> None:
        await connection.execute(sql)

    bind = op.get_bind()
    bind.exec_driver_sql("select 1")  # opens the transaction that the script runs in
    raw: Any = bind.connection.dbapi_connection
    raw.run_async(execute)
