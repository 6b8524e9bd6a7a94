"""Who may do what: bot tokens, API keys, operators and their sessions."""
