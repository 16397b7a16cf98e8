"""`runner init`: turn a repository into a project by finding its training script, trying it once and describing it.

    folder -> training script (proposal, source, modules)
    -> first run (first_run), how to read its output (trial), why it failed (way_out)
    -> texts of the definition and the settings (proposal) -> files

The repository is not edited, and only the first run executes its code.
"""
