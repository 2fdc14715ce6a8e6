"""Measurements from files: JSON lines, CSV and Parquet. Each line is a measurement, or malformed with a reason."""

from batchline.sources.files.reading import FORMATS, MALFORMED, Reading, files_of, read_measurements

__all__ = ["FORMATS", "MALFORMED", "Reading", "files_of", "read_measurements"]
