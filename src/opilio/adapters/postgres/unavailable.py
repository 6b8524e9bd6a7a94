"""Errors of a server that does not answer: no statement or value causes them, and the same request may succeed later."""

import asyncpg

from opilio.errors import Unavailable

DOES_NOT_ANSWER = (
    Unavailable,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # it starts, stops, or fails over
    asyncpg.InsufficientResourcesError,  # connections, memory, disk
    asyncpg.PostgresSystemError,  # the disk fails
    asyncpg.ReadOnlySQLTransactionError,  # a standby, after a failover
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # asyncpg, when the server dies between two messages
)
# The statement was understood, and could not be carried out now.
TRY_AGAIN = (
    *DOES_NOT_ANSWER,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
)


def does_not_answer(error: Exception) -> bool:
    """Whether the server is at fault; a value that cannot be encoded is an error of asyncpg's interface, too."""
    return isinstance(error, DOES_NOT_ANSWER) and not isinstance(error, ValueError)
