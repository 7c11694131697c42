"""One table row; the next owner gets it while the last one's step still waits on the device."""

from minisgl_lite.toy import Toy

toy = Toy(page_size=1, num_pages=24, max_running_req=1, overlap=True, late=True)
toy.add("the cat sat", says="down <eos> then", max_tokens=8)
toy.add("my owl eats five fat mice each day", says="and sleeps")
toy.run()
