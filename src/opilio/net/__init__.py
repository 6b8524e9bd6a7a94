"""Connections that go only where they are allowed to."""
