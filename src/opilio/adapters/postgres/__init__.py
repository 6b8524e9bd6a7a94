"""PostgreSQL: pools, statements, migrations, partitions, notifications, the embedded server."""

from opilio.adapters.postgres.pool import ChangedMeanwhileError, Database, Row, Session
from opilio.adapters.postgres.queries import Queries, Statement, load_queries

__all__ = ["ChangedMeanwhileError", "Database", "Queries", "Row", "Session", "Statement", "load_queries"]
