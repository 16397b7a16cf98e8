"""1,797 real handwritten digits of 8 x 8 pixels, so that training needs no network."""
