"""Every statement of this part, by name."""

from opilio.adapters.postgres import load_queries

QUERIES = load_queries("opilio.delivery")
