"""What a broker keeps in a log directory beside the logs: its state files, its lock, and traces of moved logs."""
