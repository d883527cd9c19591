"""Microsoft Graph: one mail out of one mailbox, a look into it, and the access both need."""
