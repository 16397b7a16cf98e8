"""A repository of one's own becomes a project: its training script is found, tried once, and described.

    a folder -> the script that trains (proposal), what its files show (source, modules)
    -> a short run (first_run), how its output is read (trial), why it failed (way_out)
    -> the texts of a definition and of settings (proposal) -> files

Nothing of the repository is imported or edited, and only the short run starts anything of it.
"""
