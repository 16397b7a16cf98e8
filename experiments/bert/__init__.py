"""BERT, fine-tuned to tell good from bad reviews: one process, several, and the way of the published script."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # no run ever downloads anything; the library reads it when it is imported
