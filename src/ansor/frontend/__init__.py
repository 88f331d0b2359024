"""From models to graphs to tasks, and back to something that runs."""
