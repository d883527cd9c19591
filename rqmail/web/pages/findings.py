"""What the doctor finds, and what to do about it, by the code of its sentence; what is typed is in backticks."""

from __future__ import annotations

from typing import Final

from rqmail.web.pages.language import Counted, counted, gettext_noop

#: What a check found.
FOUND: Final[dict[str, str]] = {
    "settings-valid": gettext_noop("all RQMAIL_* variables are valid"),
    "secret-file-open": gettext_noop("everybody on this machine may read the file of %(variable)s"),
    "mail-staged": gettext_noop("no mail leaves: it goes to %(place)s"),
    "mail-redirected": gettext_noop("all mail goes to %(address)s, whoever it is for"),
    "no-secret-key": gettext_noop(
        "RQMAIL_SECRET_KEY is not set: secrets of tenants cannot be stored, tokens are not shared between processes"
    ),
    "no-key-opens": gettext_noop("no key opens %(number)s stored secrets (%(names)s)"),
    "need-former-key": gettext_noop("encrypted with a former key: secrets %(secrets)s, tokens %(tokens)s"),
    "no-former-key-needed": gettext_noop("nothing stored needs a former key any more"),
    "database-behind": gettext_noop("%(kind)s: not up to date (%(steps)s)"),
    "database-current": gettext_noop("%(kind)s, up to date"),
    "no-senders": gettext_noop("nobody may send yet"),
    "redis-well": gettext_noop("reached; scripts and writes work"),
    "database-forgets": gettext_noop("a power cut makes it forget what it said was written (%(settings)s)"),
    "redis-evicts": gettext_noop(
        "it throws keys away once its memory is full (%(policy)s): queues and counts would be lost"
    ),
    "standbys-behind": gettext_noop(
        "it does not wait for its standbys (%(number)s): a failover forgets what they lack"
    ),
    "redis-cannot-save": gettext_noop("it cannot write to its disk, and refuses writes before long"),
    "redis-forgets": gettext_noop("it keeps nothing on disk: a restart empties the queues and the counts"),
    "last-dispatch": gettext_noop("the last dispatch was %(age)s ago"),
    "traces-read": gettext_noop("it is read: whether mail was delivered is known"),
    "no-graph": gettext_noop("Microsoft Graph is not configured"),
    "certificate-ends": gettext_noop("it expires on %(date)s, in %(days)s days"),
    "certificate-valid": gettext_noop("valid until %(date)s"),
    "mailbox-not-found": gettext_noop("Graph does not know this mailbox"),
    "may-not-send": gettext_noop("it may not send"),
    "may-not-read": gettext_noop("its Sent Items may not be read: a message with a lost answer waits for a decision"),
    "may-not-write": gettext_noop("Mail.ReadWrite is missing for mails over 4 MB: these wait"),
    "no-names": gettext_noop(
        "Exchange lets it create no more named properties: its mail goes without ours, and a lost answer is looked up"
        " by header and Message-ID"
    ),
    "comes-back": gettext_noop(
        "%(percent)s of its mail came back in 7 days (%(bounced)s of %(recipients)s recipients)"
    ),
    "not-known": gettext_noop("not known"),
    "may-read": gettext_noop("Graph knows it, and its Sent Items may be read: lost answers are looked up"),
    "may-send": gettext_noop("its provider lets it send"),
}

#: What to do about it.
ADVICE: Final[dict[str, str]] = {
    "close-secret-file": gettext_noop("take that right away: `chmod 600`, in Kubernetes `defaultMode: 0400`"),
    "unset-transport": gettext_noop("unset RQMAIL_TRANSPORT to send"),
    "unset-redirect": gettext_noop("unset it to send"),
    "set-secret-key": gettext_noop("set it to 32 random characters, the same for every process"),
    "add-former-key": gettext_noop(
        "put the key they were stored with into RQMAIL_FORMER_SECRET_KEYS, or store them anew"
    ),
    "rotate-vault": gettext_noop("run `rqmail vault rotate`"),
    "check-database": gettext_noop("check RQMAIL_DATABASE_URL and that the server runs"),
    "run-init": gettext_noop("run `rqmail init`"),
    "add-mailbox": gettext_noop("add one on the page Mailboxes, or with `rqmail mailbox add KEY --address …`"),
    "check-redis": gettext_noop("check RQMAIL_REDIS_URL and that the server runs"),
    "start-redis": gettext_noop("start it, or correct RQMAIL_REDIS_URL"),
    "correct-redis": gettext_noop("this does not pass by itself: correct it"),
    "keep-writes": gettext_noop("turn that on: a message forgotten so may be lost, or sent twice"),
    "keep-keys": gettext_noop("set `maxmemory-policy noeviction`"),
    "wait-for-standby": gettext_noop(
        "set `synchronous_standby_names`: a message forgotten so may be lost, or sent twice"
    ),
    "make-room": gettext_noop("make room on its disk; its log says what is wrong"),
    "keep-data": gettext_noop("no mail is lost by that; turn on `appendonly` or `save` where statistics should stay"),
    "start-scheduler": gettext_noop("start `rqmail scheduler`, or `%(stock)s` after `rqmail init`"),
    "start-worker": gettext_noop("start `rqmail worker`, or `%(stock)s`"),
    "set-graph": gettext_noop("set RQMAIL_GRAPH_TENANT_ID, _CLIENT_ID and _CLIENT_SECRET (or _CERTIFICATE)"),
    "correct-certificate": gettext_noop("correct RQMAIL_GRAPH_CERTIFICATE"),
    "renew-certificate": gettext_noop(
        "make a new one, upload it to the app registration, then put it into RQMAIL_GRAPH_CERTIFICATE"
    ),
    "correct-sender": gettext_noop("correct it on its page, or with `%(command)s`"),
    "grant-read": gettext_noop("grant Mail.Read to the app, restricted to its mailboxes, if that is wanted"),
    "grant-write": gettext_noop("grant Mail.ReadWrite to the app, restricted to its mailboxes, if that is wanted"),
    "make-names": gettext_noop("move the mailbox to make room for names; it is tried again after a week"),
    "clean-lists": gettext_noop("others begin to refuse it: clean the lists its addresses come from"),
    "no-traces": gettext_noop("whether mail was delivered stays unknown until then, nothing else does"),
    "try-again": gettext_noop("try again; see the permissions of the app if it stays"),
}

#: What a check counted.
FOUND_COUNTED: Final[dict[str, Counted]] = {
    "workers-listen": counted("1 worker listens for mail", "%(number)s workers listen for mail"),
}
