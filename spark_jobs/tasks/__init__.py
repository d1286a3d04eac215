"""What workers do, and how it gets to them: functions without Spark or job."""
