"""`make soak`: the whole system at work for half an hour while its parts are killed, then an audit of the database."""
