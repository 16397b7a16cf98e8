"""Verify runs, repeat them, and bundle them for a reviewer."""
