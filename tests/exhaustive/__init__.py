"""Every stream of requests within a stated bound, run on the real managers and both loops."""
