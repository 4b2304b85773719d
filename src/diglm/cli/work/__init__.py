"""What each command does; imported only when a command runs."""
