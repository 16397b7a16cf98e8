"""What an image consists of: its packages, their licences, and what is known against them."""
