"""Blocks -> one page: HTML with its plots in it, a page for a proposal, LaTeX. matplotlib and Jinja2 are known here."""
