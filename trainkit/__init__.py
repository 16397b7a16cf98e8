"""What every training program uses: its place among the ranks, its clock, its event lines, its data."""
