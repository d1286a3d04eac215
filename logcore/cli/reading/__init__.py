"""What commands are given and how they read it: arguments, selections, logs."""
