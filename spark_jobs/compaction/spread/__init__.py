"""What the tasks of a spread cleaning share, and the steps for plain logs."""
