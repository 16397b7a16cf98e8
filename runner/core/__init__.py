"""What every room of the runner may use: errors, layouts, files, YAML."""
