"""Under overlap: one request that ends by length, one that ends by end-of-sequence."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=4, num_pages=8, overlap=True)
toy.add("the cat sat", says="on a mat")
toy.add("a dog", says="ran <eos> off", max_tokens=8)
toy.run()
