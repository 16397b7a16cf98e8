"""ResNet50 on one device, split over two, and as a pipeline; compare them pairwise."""
