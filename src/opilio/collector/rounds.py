"""What the background rounds of the collector work with."""

from opilio.adapters.postgres import Database
from opilio.bus import Bus
from opilio.collector.config import Config
from opilio.collector.state.protocol import StateStore


class Rounds:
    """Rounds that change states of projects: `batch` rows each, published after their transaction."""

    def __init__(
        self, database: Database, bus: Bus, state: StateStore, config: Config, *, batch: int = 500
    ) -> None:
        self._db = database
        self._bus = bus
        self._state = state
        self._config = config
        self._batch = batch
