"""Basic modules that every package of the runner may import: errors, layouts, files, YAML."""
