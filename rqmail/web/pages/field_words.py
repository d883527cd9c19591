"""What the fields of forms are called on the pages, and what each must be, by the name it has in the API."""

from __future__ import annotations

from typing import Final

from flask_babel import lazy_gettext

from rqmail.web.pages.language import gettext_noop
from rqmail.web.pages.words import Words

#: What a field is called.
FIELDS: Final[Words] = {
    "address": lazy_gettext("Address"),
    "rateLimitPerMinute": lazy_gettext("Messages a minute"),
    "rateLimitRecipientsPerDay": lazy_gettext("Recipients a day"),
    "maxMessageBytes": lazy_gettext("Bytes of one message"),
    "sentItems": lazy_gettext("Copies in Sent Items"),
    "pruneAfterDays": lazy_gettext("Removed after so many days"),
    "graphTenantId": lazy_gettext("Directory (tenant) id"),
    "graphClientId": lazy_gettext("Application (client) id"),
    "graphClientSecret": lazy_gettext("Client secret"),
    "sendgridFrom": lazy_gettext("From address"),
    "sendgridApiKey": lazy_gettext("API key"),
}

#: What a limit must be that is larger than what can be stored.
TOO_LARGE: Final[Words] = {
    "rateLimitPerMinute": lazy_gettext("rateLimitPerMinute must be a positive whole number, at most 2,147,483,647"),
    "rateLimitRecipientsPerDay": lazy_gettext(
        "rateLimitRecipientsPerDay must be a positive whole number, at most 2,147,483,647"
    ),
}

#: What a field must be.
WRONG: Final[Words] = {
    "maxMessageBytes": lazy_gettext("A whole number of bytes from 1 to 1,000,000,000, files as base64."),
    "sentItems": lazy_gettext("One of those in the list."),
    "pruneAfterDays": lazy_gettext("A whole number of days from 1 to 3,650, where copies are removed."),
    "rateLimitPerMinute": lazy_gettext("rateLimitPerMinute must be a positive whole number"),
    "rateLimitRecipientsPerDay": lazy_gettext("rateLimitRecipientsPerDay must be a positive whole number"),
    "key": lazy_gettext(
        "1 to 64 letters, digits, dots, hyphens and underscores, beginning and ending with a letter or digit."
    ),
    "name": lazy_gettext("1 to 64 letters, digits, dots, hyphens and underscores; not admin."),
    "address": lazy_gettext("A mail address, such as nieuws@example.org."),
    "sendgridFrom": lazy_gettext("A mail address, such as nieuws@example.org."),
    "graphTenantId": lazy_gettext(
        "A GUID such as 11111111-2222-3333-4444-555555555555, or a domain such as contoso.onmicrosoft.com."
    ),
    "graphClientId": lazy_gettext("A GUID such as 11111111-2222-3333-4444-555555555555."),
    "graphClientSecret": lazy_gettext("1 to 4096 printable characters."),
    "sendgridApiKey": lazy_gettext("1 to 4096 printable characters."),
    "provider": lazy_gettext("One of those in the list."),
    "limitsUntil": lazy_gettext("A day that is not over yet, at most a year away."),
    "reason": lazy_gettext("A reason of 1 to 500 characters."),
    "duration": lazy_gettext("One of those in the list."),
    "scopes": lazy_gettext("At least one."),
    "mailboxes": lazy_gettext("Keys of mailboxes that exist, for a token that only hands mail in."),
    "expiresOn": lazy_gettext("A day that is not over yet."),
    "messages": lazy_gettext("A whole number from 0 to 100,000,000."),
    "recipientsEach": lazy_gettext("A whole number from 1 to 500."),
    "perMinute": lazy_gettext("A whole number from 1 to 1,000,000."),
    "recipientsPerDay": lazy_gettext("A whole number from 1 to 1,000,000,000."),
    "at": lazy_gettext("A date and a time."),
    "RQMAIL_SECRET_KEY": lazy_gettext("Set RQMAIL_SECRET_KEY first: secrets are stored encrypted."),
}

#: What is needed, by the field that was left empty.
MISSING: Final[Words] = {
    "address": lazy_gettext("The mailbox that sends, needed for Microsoft Graph."),
    "sendgridFrom": lazy_gettext("A mail address, needed for SendGrid."),
    "graphClientId": lazy_gettext("Needed together with the client secret."),
    "graphClientSecret": lazy_gettext("Needed together with the client id."),
}

#: What a field of a mail must be; what exactly is wrong stands behind it.
WRONG_IN_MAIL: Final[Words] = {
    "sender": lazy_gettext("One of those in the list."),
    "to": lazy_gettext("At least one mail address in To, Cc or Bcc, with commas between them; at most 500."),
    "cc": lazy_gettext("Mail addresses, with commas between them."),
    "bcc": lazy_gettext("Mail addresses, with commas between them."),
    "replyTo": lazy_gettext("Mail addresses, with commas between them."),
    "from": lazy_gettext("One mail address."),
    "subject": lazy_gettext("One line of text, at most 998 characters."),
    "text": lazy_gettext("A text or HTML, at most 3 MB together."),
    "html": lazy_gettext("HTML that shows no picture which was not chosen below."),
    "attachments": lazy_gettext("A file cannot be sent like this."),
    "importance": lazy_gettext("One of those in the list."),
    "headers": lazy_gettext("One header a line, as Name: value; none that the mail has anyway."),
    "unsubscribeUrl": lazy_gettext("An address that begins with https."),
    "unsubscribe": lazy_gettext("One recipient, no address of your own to unsubscribe at, and RQMAIL_WEB_URL set."),
}

#: What somebody who hands a mail in should know about it; ``about`` fills it in.
NOTICES: Final[dict[str, str]] = {
    "blocked-type": gettext_noop("Exchange or Outlook may keep %(about)s from who receives it: its type is blocked."),
    "needs-read-write": gettext_noop(
        "A mail of %(about)s bytes goes up in parts, which needs the app's permission Mail.ReadWrite."
    ),
    "lacks-read-write": gettext_noop(
        "A mail of %(about)s bytes goes up in parts, which needs the app's permission Mail.ReadWrite."
        " It did not have it when it was last asked: the mail waits until it has."
    ),
    "named-twice": gettext_noop("%(about)s was named twice, and gets the mail once."),
}
