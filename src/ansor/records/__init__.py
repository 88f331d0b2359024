"""The memory: what measurements left behind, and the database that keeps it."""
