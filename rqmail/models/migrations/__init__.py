"""The steps by which the tables come about; rqmail.models.migrate applies them in the order of their numbers."""
