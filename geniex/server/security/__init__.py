"""Who may talk to the server: names, pages, keys, and how much and how long."""
