"""OPILIO_DATABASE_URL as asyncpg takes it: the parameters of libpq's URIs that make sense here."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from opilio.errors import OpilioError

# What asyncpg reads from a URL itself. It would send any other parameter to the server as a setting.
_PASSED_ON = {
    "host", "port", "dbname", "database", "user", "password", "passfile", "options", "target_session_attrs",
    "sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib",
}  # fmt: skip
# Valid for libpq and without effect here: asyncpg decides these itself.
_IGNORED = {
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "channel_binding",
    "client_encoding", "fallback_application_name", "gssencmode", "load_balance_hosts", "sslcompression", "sslsni",
    "hostaddr",
}  # fmt: skip
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A checked URL: what to connect to, for how long to try, and the application name that it carries."""

    dsn: str
    connect_seconds: float
    application_name: str | None

    def arguments(self, name: str = "opilio") -> dict[str, Any]:
        """Arguments of `asyncpg.connect` and `create_pool`; `name` is shown in pg_stat_activity."""
        shown = f"{name} ({self.application_name})" if self.application_name else name
        return {
            "dsn": self.dsn,
            "timeout": self.connect_seconds,
            "server_settings": {"application_name": shown[:63]},
        }


def parse_database_url(url: str) -> DatabaseUrl:
    """Raises `OpilioError` for what is not a URL of PostgreSQL, or has parameters that libpq does not know."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        raise OpilioError("must be a URL like postgresql://user:password@host:5432/database")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = given.keys() - _PASSED_ON - _IGNORED - {"connect_timeout", "application_name"}
    if unknown:
        raise OpilioError(f"has the unknown parameter {min(unknown)!r}")
    try:
        seconds = float(given.get("connect_timeout") or _CONNECT_SECONDS)
    except ValueError:
        raise OpilioError("connect_timeout must be a number of seconds") from None
    query = urlencode({name: value for name, value in given.items() if name in _PASSED_ON}, safe="/,:")
    dsn = f"postgresql://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
    # libpq takes 0 as no limit.
    return DatabaseUrl(dsn, seconds if seconds > 0 else 3600, given.get("application_name"))
