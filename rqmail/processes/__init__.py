"""The processes that carry the mail: the scheduler and the workers."""
