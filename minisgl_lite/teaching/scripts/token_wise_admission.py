"""Three pages of four tokens; two requests that need two pages each."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=4, num_pages=3)
toy.add("the cat sat on a", says="mat")
toy.add("my owl eats five fat", says="mice")
toy.run()
