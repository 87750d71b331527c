"""The command line program jobq. Each module adds its commands to the parser; main.py calls them and turns errors into exit statuses."""
