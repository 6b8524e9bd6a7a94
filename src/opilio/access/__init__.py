"""Who may do what: bot tokens, API keys, operators, sessions, and the log of what they did."""
