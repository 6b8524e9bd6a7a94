"""The HTTP face: bot API, management API, documents, login."""
