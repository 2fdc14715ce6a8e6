"""Loops on Spark, and the Java that it needs."""
