"""What the engine's tests share: small worlds, brute-force models, an independent book-keeper."""
