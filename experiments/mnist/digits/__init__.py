"""1,797 handwritten digits of 8 x 8 pixels, for training without a download."""
