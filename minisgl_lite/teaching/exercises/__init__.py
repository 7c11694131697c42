"""One module per exercise: its words, its check and its hints. Notebooks are made from them."""
