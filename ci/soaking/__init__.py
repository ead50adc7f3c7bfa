"""What `python -m ci.soak` is made of: models that change, clients, mishaps, and who watches."""
