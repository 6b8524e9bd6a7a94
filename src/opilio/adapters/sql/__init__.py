"""Every statement of the local bus, by name."""

from opilio.adapters.postgres import load_queries

QUERIES = load_queries("opilio.adapters")
