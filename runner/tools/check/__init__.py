"""`runner check`: whether several processes train what one process trains."""
