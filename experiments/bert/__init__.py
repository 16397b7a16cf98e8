"""BERT, fine-tuned to classify reviews: in one process, in several, and as a published script does it."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # no run downloads anything; the library reads this at import
