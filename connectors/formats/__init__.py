"""Formats: one file per format, holding its option table and making its decoder and encoder."""
