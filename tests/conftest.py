"""What every test may ask for: bundled samples, and an environment in which Spark and Dagster stay on this machine."""
