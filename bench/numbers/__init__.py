"""What changes the numbers of a training, and by how much: the table of docs/references.md."""
