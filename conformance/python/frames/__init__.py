"""AMQP 0-9-1 at the level of bytes: a small client that may break every rule, and what a broker must answer."""
