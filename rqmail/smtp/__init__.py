"""The SMTP door: programs that speak nothing else hand their mail in here, and it leaves within the budget."""
