"""Four requests that decode together."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=4, num_pages=8)
toy.add("the cat", says="sat down")
toy.add("a dog", says="ran off")
toy.add("my owl", says="ate it")
toy.add("five mice", says="hid there")
toy.run()
