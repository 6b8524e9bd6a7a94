"""Events on their way out: log, relay, publishing, retention."""
