"""Loops and their clock."""
