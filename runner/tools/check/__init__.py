"""`runner check`: do several processes train what one process trains?"""
