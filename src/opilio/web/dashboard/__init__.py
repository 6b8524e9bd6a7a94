"""The dashboard: see the herd, and act."""
