"""Two prefixes are cached. While two requests decode, a third asks for a part of the older one."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=1, num_pages=9)
toy.add("the cat sat", says="down")
toy.run()
toy.add("a dog", says="barked")
toy.run()
toy.add("owls", says="eat mice daily")
toy.add("mice", says="eat corn daily")
toy.step()
toy.step()
toy.add("the cat ran", says="away from it")
toy.run()
