"""The HTTP server: access, limits, logs."""
