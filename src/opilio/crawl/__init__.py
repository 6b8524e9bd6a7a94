"""URL jobs: policies, scheduler, rule engine, locks, politeness, expiry, results."""
