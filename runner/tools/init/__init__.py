"""A repository of one's own becomes a project: its training script is found, tried once, and described.

    a folder -> Tree (tree) -> Source of each file (source) -> the script that trains (choose)
    -> how it is started (modules), what it does (traits) -> a short run (trial) -> how its output is read (reading)
    -> the texts of a definition, of settings and of .gitignore (definition_text, settings_text) -> files

Nothing of the repository is imported or edited, and only the short run starts anything of it.
"""
