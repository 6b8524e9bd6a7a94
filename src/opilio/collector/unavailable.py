"""The errors of a database or cache that does not answer: messages wait for it without a limit."""

from datetime import timedelta

import asyncpg

from opilio.errors import Unavailable

UNAVAILABLE = (
    Unavailable,
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)
RETRY_AFTER = timedelta(seconds=5)
