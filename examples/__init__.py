"""Programs to begin with; each says how it is run."""
