"""The SQL client: scripts and the interactive shell, over a session of a gateway."""
