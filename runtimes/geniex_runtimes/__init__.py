"""What can run on this machine, and running it."""
