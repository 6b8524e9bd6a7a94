"""Reads the project out of a task's id: `"{project_id}-brand-{i}"`, where the project may hold dashes itself."""

import re

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def extract_project_id(job_id: str) -> str | None:
    """The project of a task, or None for a dry run (a UUID) and for what is no task's id."""
    if _UUID.fullmatch(job_id):
        return None
    parts = job_id.split("-")
    if len(parts) < 3 or not (parts[-1].isascii() and parts[-1].isdigit()):
        return None
    return "-".join(parts[:-2]) or None
