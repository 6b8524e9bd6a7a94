"""Real servers for the tests, each with its own ports and data, on loopback."""
