"""What changes the numbers of a training, and by how much: `python -m bench.numbers` writes docs/numbers.md."""
