"""The errors of a database or cache that does not answer: messages wait for it without a limit."""

from datetime import timedelta

from opilio.adapters.postgres.unavailable import DOES_NOT_ANSWER

UNAVAILABLE = DOES_NOT_ANSWER
RETRY_AFTER = timedelta(seconds=5)
