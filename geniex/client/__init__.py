"""A running server from the other side: what `geniex run` and `geniex ps` speak through."""
