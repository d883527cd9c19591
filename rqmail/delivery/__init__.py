"""Mail goes out: waiting messages are claimed within the budgets and sent, and whatever was lost is found again."""
