"""Worker processes of this machine that run tasks, and the driver's side of them."""
