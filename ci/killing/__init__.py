"""What `python -m ci.kills` is made of: commands that are killed, and what they leave behind."""
