"""Write results as an HTML page with plots, and export runs to MLflow."""
