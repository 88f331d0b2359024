"""The loop: from a task to its best program and kernel."""
