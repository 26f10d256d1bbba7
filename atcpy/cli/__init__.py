"""The command line: one file a command; heavy imports wait inside the commands."""
