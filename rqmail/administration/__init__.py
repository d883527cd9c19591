"""People change: who may send and how much, what becomes of messages, who may do that; all of it audited."""
