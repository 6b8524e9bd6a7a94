"""The read side: every question that the API, the command line, the dashboard and the metrics ask."""
