"""Redis: estimates. Each verb is one script, which the server runs as a whole."""
