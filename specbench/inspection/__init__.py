"""What raw run folders say, read without the index. Nothing here writes."""
