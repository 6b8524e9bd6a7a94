"""Project state in Redis or PostgreSQL, behind one protocol."""
