"""Keyword projects: tasks go out to the crawlers of platforms, results come back, the state is exact."""
