"""ResNet50 on one device, split over two, and as a pipeline; the difference between two of them is the lesson."""
