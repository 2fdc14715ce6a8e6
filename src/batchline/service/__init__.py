"""The path over HTTP."""
