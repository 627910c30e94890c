"""Crash tests in pytest."""
