"""One text for many people: a template, a list, a pool of mailboxes; and who must not get mail."""
