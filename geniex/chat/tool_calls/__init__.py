"""Tool calls in the text of answers: one file for each way in which models write them."""
