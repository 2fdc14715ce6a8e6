"""State, and what keeps it: a room per kind of server."""
