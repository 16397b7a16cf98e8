"""BERT, fine-tuned to classify reviews: in one process, in several, and as in a published script."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # runs must not download; the library reads this at import
