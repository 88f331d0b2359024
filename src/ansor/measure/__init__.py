"""The truth: isolated building and running, verification, timing."""
