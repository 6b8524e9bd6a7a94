"""HTTP: bot API, management API, documents, login."""
