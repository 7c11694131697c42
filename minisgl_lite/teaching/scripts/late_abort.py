"""A request is cancelled while its prompt is on the device; then its pages meet two others."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=4, num_pages=4, overlap=True)
toy.add("the cat sat on a", says="mat and slept")
toy.step()
toy.abort(1)
toy.run()
toy.add("my owl eats five fat mice each day and then it", says="sits")
toy.run()
toy.add("the cat sat on a", says="chair")
toy.run()
