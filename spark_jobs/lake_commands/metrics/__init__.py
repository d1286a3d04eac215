"""``loglake metrics``: figures of lakes, for Prometheus."""
