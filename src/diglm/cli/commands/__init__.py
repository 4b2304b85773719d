"""What each command takes: arguments, options and their help."""
