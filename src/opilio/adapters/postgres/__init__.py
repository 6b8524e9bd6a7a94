"""PostgreSQL: pools, statements, migrations, partitions, notifications, the embedded server."""

from opilio.adapters.postgres.pool import Database, Row, Session
from opilio.adapters.postgres.queries import Queries, Statement, load_queries

__all__ = ["Database", "Queries", "Row", "Session", "Statement", "load_queries"]
