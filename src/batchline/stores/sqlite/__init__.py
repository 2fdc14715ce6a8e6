"""SQLite: one file, several processes on one machine."""
