"""The egress guard: what a page, its scripts and we ourselves may connect to, enforced where the connection is made."""
