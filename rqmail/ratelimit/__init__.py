"""The brake before Exchange's own: how much each mailbox may send, counted on Redis for all processes."""
