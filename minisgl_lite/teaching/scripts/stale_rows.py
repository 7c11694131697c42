"""The same prompt twice in one batch. One ends at once, the other goes on; a third takes pages."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=4, num_pages=8)
toy.add("once there was a cat who sat on a", says="mat")
toy.add("once there was a cat who sat on a", says="chair and slept")
toy.step()
toy.add("my owl eats five fat mice each day and then it sits on trees", says="again")
toy.run()
