"""The wire vocabulary: every message and body that crosses a process, and no behaviour."""
