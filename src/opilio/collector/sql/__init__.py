"""The named statements of the collector."""

from opilio.adapters.postgres import load_queries

queries = load_queries("opilio.collector")
