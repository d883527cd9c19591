"""What can be done to one message or to many: what it is called, what is asked before, said of it, and said after."""

from __future__ import annotations

from typing import Final

from flask_babel import lazy_gettext

from rqmail.web.pages.language import Counted, counted
from rqmail.web.pages.words import Words

#: What can be decided about so many messages of which it is unknown whether they were sent.
DECIDE: Final[dict[str, Counted]] = {
    "confirm-sent": counted("Confirm this one", "Confirm these %(number)s"),
    "resend": counted("Send this one again", "Send these %(number)s again"),
    "discard": counted("Discard this one", "Discard these %(number)s"),
}

#: What can be done to one message.
ACTS: Final[Words] = {
    "cancel": lazy_gettext("Cancel"),
    "requeue": lazy_gettext("Send again"),
    "send-now": lazy_gettext("Send now"),
    "sent": lazy_gettext("Confirm sent"),
    "resend": lazy_gettext("Send again"),
    "discard": lazy_gettext("Discard"),
}

#: What is asked before it is done.
ACT_QUESTIONS: Final[Words] = {
    "cancel": lazy_gettext("Cancel this message?"),
    "sent": lazy_gettext("Was this message sent?"),
    "resend": lazy_gettext("Send this message again?"),
    "discard": lazy_gettext("Discard this message?"),
}

#: What happens then.
ACT_CONSEQUENCES: Final[Words] = {
    "cancel": lazy_gettext("It is not sent. It can be sent again later."),
    "sent": lazy_gettext("It counts as sent and is never tried again. This cannot be undone."),
    "resend": lazy_gettext("Whoever got it already gets it twice. This cannot be undone."),
    "discard": lazy_gettext("It is not sent again."),
}

#: What is said after it.
ACTS_DONE: Final[Words] = {
    "cancel": lazy_gettext("The message was cancelled."),
    "requeue": lazy_gettext("The message is sent again."),
    "send-now": lazy_gettext("The message is due now."),
    "sent": lazy_gettext("The message counts as sent."),
    "resend": lazy_gettext("The message is sent again."),
    "discard": lazy_gettext("The message was discarded."),
}

#: What can be done to many messages.
BULK_ACTIONS: Final[Words] = {
    "cancel": lazy_gettext("Cancel"),
    "requeue": lazy_gettext("Send again"),
    "send-now": lazy_gettext("Send now"),
    "confirm-sent": lazy_gettext("Unknown: confirm sent"),
    "resend": lazy_gettext("Unknown: send again"),
    "discard": lazy_gettext("Unknown: discard"),
}

#: What is asked before it is done.
BULK_QUESTIONS: Final[dict[str, Counted]] = {
    "cancel": counted("Cancel 1 message?", "Cancel %(number)s messages?"),
    "requeue": counted("Send 1 message again?", "Send %(number)s messages again?"),
    "send-now": counted("Send 1 message now?", "Send %(number)s messages now?"),
    "confirm-sent": counted("Confirm that 1 message was sent?", "Confirm that %(number)s messages were sent?"),
    "resend": counted("Send 1 message again?", "Send %(number)s messages again?"),
    "discard": counted("Discard 1 message?", "Discard %(number)s messages?"),
}

#: What happens then.
BULK_CONSEQUENCES: Final[Words] = {
    "cancel": lazy_gettext("They are not sent. They can be sent again later."),
    "requeue": lazy_gettext("From the first attempt on, within the budgets."),
    "send-now": lazy_gettext("They are due at once; the budgets still hold."),
    "confirm-sent": lazy_gettext("They count as sent and are never tried again. This cannot be undone."),
    "resend": lazy_gettext("Whoever got them already gets them twice. This cannot be undone."),
    "discard": lazy_gettext("They are not sent again."),
}

#: What is said after it.
BULK_DONE: Final[dict[str, Counted]] = {
    "cancel": counted("1 message was cancelled.", "%(number)s messages were cancelled."),
    "requeue": counted("1 message is sent again.", "%(number)s messages are sent again."),
    "send-now": counted("1 message is due now.", "%(number)s messages are due now."),
    "confirm-sent": counted("1 message counts as sent.", "%(number)s messages count as sent."),
    "resend": counted("1 message is sent again.", "%(number)s messages are sent again."),
    "discard": counted("1 message was discarded.", "%(number)s messages were discarded."),
}
