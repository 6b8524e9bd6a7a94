"""Network connections: which addresses are allowed, connecting to them, and a server for loopback."""
