"""The Microsoft Graph operations on mail."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from aiohttp import web

from rqmail.sandbox.answers import GraphRefusal, empty_answer, graph_time, json_answer
from rqmail.sandbox.calls import Call, CallRunner
from rqmail.sandbox.mailbox import FOLDERS, StoredMessage
from rqmail.sandbox.mime import message_from_mime
from rqmail.sandbox.outgoing import (
    accept,
    check_header_count,
    check_headers,
    check_names,
    check_outgoing,
    sent_copy,
    visible_from,
)
from rqmail.sandbox.queries import MessageQuery, message_view
from rqmail.sandbox.reports import report_bounces
from rqmail.sandbox.schema import read_typed
from rqmail.sandbox.state import SandboxState
from rqmail.sandbox.upload_calls import UploadCalls, add_volume
from rqmail.sandbox.uploads import UploadSession

_CONTEXT = "https://graph.microsoft.com/v1.0/$metadata#"
_UPLOAD_LIFETIME = timedelta(days=1)


class GraphMail:
    """Sending, drafts, searches and uploads on the mailboxes of one sandbox."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put every operation on its path."""
        run = CallRunner(self._state).handler
        user = "/v1.0/users/{user}"
        message = f"{user}/messages/{{message}}"
        for method, path, name, operation in (
            ("POST", f"{user}/sendMail", "sendMail", self.send_mail),
            ("POST", f"{user}/microsoft.graph.sendMail", "sendMail", self.send_mail),
            ("GET", user, "getUser", self.get_user),
            ("GET", f"{user}/messages", "listMessages", self.list_messages),
            ("POST", f"{user}/messages", "createDraft", self.create_draft),
            ("GET", message, "getMessage", self.get_message),
            ("GET", f"{message}/$value", "getMime", self.get_mime),
            ("PATCH", message, "updateMessage", self.update_message),
            ("DELETE", message, "deleteMessage", self.delete_message),
            ("POST", f"{message}/permanentDelete", "permanentDelete", self.remove_message),
            ("POST", f"{message}/send", "send", self.send_draft),
            ("POST", f"{message}/microsoft.graph.send", "send", self.send_draft),
            ("GET", f"{message}/attachments", "listAttachments", self.list_attachments),
            ("POST", f"{message}/attachments", "addAttachment", self.add_attachment),
            ("POST", f"{message}/attachments/createUploadSession", "createUploadSession", self.open_upload),
            ("GET", f"{user}/mailFolders", "listFolders", self.list_folders),
            ("GET", f"{user}/mailFolders/{{folder}}", "getFolder", self.get_folder),
            ("GET", f"{user}/mailFolders/{{folder}}/messages", "listMessages", self.list_messages),
        ):
            router.add_route(method, path, run(name, operation))
        UploadCalls(self._state).add_routes(router)

    # --- users -----------------------------------------------------------------------------------------------------

    def get_user(self, call: Call) -> web.Response:
        """``GET /users/{id}``."""
        mailbox = call.mailbox
        return json_answer(
            {
                "@odata.context": f"{_CONTEXT}users/$entity",
                "id": mailbox.user_id,
                "displayName": mailbox.address.partition("@")[0],
                "mail": mailbox.address,
                "userPrincipalName": mailbox.address,
            }
        )

    # --- sending ---------------------------------------------------------------------------------------------------

    def send_mail(self, call: Call) -> web.Response:
        """``POST /users/{id}/sendMail``, as JSON or as MIME."""
        message, keep = (message_from_mime(call.body), True) if call.is_mime else _read_send(call.json())
        if not call.is_mime:
            check_header_count(message)
        check_names(message, self._state)
        check_outgoing(message, call.mailbox)
        mail = accept(self._state, call.mailbox, message, "mime" if call.is_mime else "json", call.ids)
        report_bounces(self._state, call.mailbox, mail, message)
        if keep:
            moment = self._state.now()
            copy = sent_copy(message, call.mailbox, moment)
            call.mailbox.store("sentitems", copy, visible_from(self._state, moment))
        return empty_answer(202)

    def send_draft(self, call: Call) -> web.Response:
        """``POST …/messages/{id}/send``: the draft moves to Sent Items."""
        draft = self._find(call)
        if not draft.properties.get("isDraft"):
            raise GraphRefusal(403, "ErrorAccessDenied", "Only a draft can be sent.")
        message = {**draft.properties, "attachments": draft.attachments}
        check_outgoing(message, call.mailbox)
        mail = accept(self._state, call.mailbox, message, "draft", call.ids)
        report_bounces(self._state, call.mailbox, mail, message)
        moment = self._state.now()
        draft.properties = sent_copy(message, call.mailbox, moment)
        draft.attachments = draft.properties.pop("attachments")
        call.mailbox.move(draft, "sentitems", visible_from(self._state, moment))
        return empty_answer(202)

    # --- messages --------------------------------------------------------------------------------------------------

    def create_draft(self, call: Call) -> web.Response:
        """``POST /users/{id}/messages``."""
        message = message_from_mime(call.body) if call.is_mime else read_typed("message", call.json())
        if not call.is_mime:
            check_header_count(message)
        check_headers(message)
        check_names(message, self._state)
        now = graph_time(self._state.now())
        message |= {"isDraft": True, "createdDateTime": now, "lastModifiedDateTime": now}
        message.setdefault("internetMessageId", f"<{call.ids.request_id}@sandbox.rqmail.invalid>")
        for attachment in message.get("attachments", []):
            attachment.setdefault("id", secrets.token_urlsafe(24))
        stored = call.mailbox.store("drafts", message)
        return self._message_answer(call, stored, 201)

    def get_message(self, call: Call) -> web.Response:
        """``GET …/messages/{id}``."""
        return self._message_answer(call, self._find(call), 200)

    def get_mime(self, call: Call) -> web.Response:
        """``GET …/messages/{id}/$value``: a message that came from outside, as it came."""
        stored = self._find(call)
        return web.Response(body=stored.mime, content_type="text/plain")

    def update_message(self, call: Call) -> web.Response:
        """``PATCH …/messages/{id}``."""
        stored = self._find(call)
        changes = read_typed("message", call.json())
        check_header_count(changes)
        check_headers(changes)
        check_names(changes, self._state)
        if not stored.properties.get("isDraft") and set(changes) - {"isRead", "categories", "flag"}:
            raise GraphRefusal(400, "ErrorInvalidPropertySet", "Only a draft can be changed this way.")
        read_only = ("id", "isDraft", "createdDateTime", "lastModifiedDateTime", "attachments", "parentFolderId")
        stored.properties |= {name: value for name, value in changes.items() if name not in read_only}
        stored.properties["lastModifiedDateTime"] = graph_time(self._state.now())
        return self._message_answer(call, stored, 200)

    def delete_message(self, call: Call) -> web.Response:
        """``DELETE …/messages/{id}``: into Deleted Items, and from there for good."""
        stored = self._find(call)
        if stored.folder == "deleteditems":
            call.mailbox.remove(stored)
        else:
            call.mailbox.move(stored, "deleteditems")
        return empty_answer(204)

    def remove_message(self, call: Call) -> web.Response:
        """``POST …/messages/{id}/permanentDelete``: gone for good."""
        call.mailbox.remove(self._find(call))
        return empty_answer(204)

    def list_messages(self, call: Call) -> web.Response:
        """``GET …/messages``, of the mailbox or of one folder."""
        folder = self._folder(call) if "folder" in call.request.match_info else None
        query = MessageQuery(call.request.query)
        found = query.run(call.mailbox, folder, self._state.now().timestamp())
        views = [message_view(stored, call.mailbox, query, immutable=call.wants_immutable_ids) for stored in found.page]
        body: dict[str, Any] = {"@odata.context": f"{_CONTEXT}users('{call.mailbox.address}')/messages"}
        if query.wants_count:
            body["@odata.count"] = found.total
        body["value"] = views
        if found.has_more:
            parts = {**call.request.query, "$skip": str(query.skip + query.top)}
            body["@odata.nextLink"] = f"{self._state.origin}{call.request.rel_url.with_query(parts)}"
        return json_answer(body, headers=_applied(call))

    def _message_answer(self, call: Call, stored: StoredMessage, status: int) -> web.Response:
        query = MessageQuery(call.request.query)
        view = message_view(stored, call.mailbox, query, immutable=call.wants_immutable_ids)
        context = f"{_CONTEXT}users('{call.mailbox.address}')/messages/$entity"
        return json_answer({"@odata.context": context, **view}, status, _applied(call))

    def _find(self, call: Call) -> StoredMessage:
        stored = call.mailbox.find(call.request.match_info["message"], self._state.now().timestamp())
        if stored is None:
            raise GraphRefusal(404, "ErrorItemNotFound", "The specified object was not found in the store.")
        return stored

    # --- folders ---------------------------------------------------------------------------------------------------

    def list_folders(self, call: Call) -> web.Response:
        """``GET …/mailFolders``."""
        return json_answer({"value": [self._folder_view(call, name) for name in FOLDERS]})

    def get_folder(self, call: Call) -> web.Response:
        """``GET …/mailFolders/{name or id}``."""
        return json_answer(self._folder_view(call, self._folder(call)))

    def _folder(self, call: Call) -> str:
        name = call.mailbox.find_folder(call.request.match_info["folder"])
        if name is None:
            raise GraphRefusal(404, "ErrorItemNotFound", "The specified folder was not found in the store.")
        return name

    def _folder_view(self, call: Call, name: str) -> dict[str, Any]:
        count = sum(1 for _ in call.mailbox.messages(name, self._state.now().timestamp()))
        return {"id": call.mailbox.folder_id(name), "displayName": FOLDERS[name], "totalItemCount": count}

    # --- attachments -----------------------------------------------------------------------------------------------

    def list_attachments(self, call: Call) -> web.Response:
        """``GET …/attachments``."""
        wanted = call.request.query.get("$select")
        files = self._find(call).attachments
        if wanted is not None:
            names = {"id", *wanted.split(",")}
            files = [{name: value for name, value in file.items() if name in names} for file in files]
        return json_answer({"value": files})

    def add_attachment(self, call: Call) -> web.Response:
        """``POST …/attachments``: a file small enough for one request."""
        stored = self._draft(call)
        attachment = read_typed("attachment", call.json())
        if not attachment.get("name"):
            raise GraphRefusal(400, "ErrorInvalidRequest", "An attachment needs a name.")
        add_volume(self._state, call.mailbox, len(call.body))
        attachment["id"] = secrets.token_urlsafe(24)
        stored.attachments.append(attachment)
        return json_answer(attachment, 201)

    def open_upload(self, call: Call) -> web.Response:
        """``POST …/attachments/createUploadSession``."""
        stored = self._draft(call)
        wish = {name.lower(): value for name, value in call.json().items()}
        item = read_typed("attachmentItem", wish.get("attachmentitem"))
        expires = self._state.now() + _UPLOAD_LIFETIME
        session = UploadSession.open(call.mailbox, stored, item, expires)
        self._state.uploads[session.token] = session
        return json_answer(
            {
                "@odata.context": f"{_CONTEXT}microsoft.graph.uploadSession",
                "uploadUrl": f"{self._upload_origin}/upload/{session.token}",
                "expirationDateTime": graph_time(expires),
                "nextExpectedRanges": session.next_expected_ranges,
            },
            201,
        )

    @property
    def _upload_origin(self) -> str:
        """Another host than Graph's, as with Microsoft: a client that knows where its token belongs sends none here."""
        return self._state.origin.replace("//localhost:", "//127.0.0.1:")

    def _draft(self, call: Call) -> StoredMessage:
        stored = self._find(call)
        if not stored.properties.get("isDraft"):
            raise GraphRefusal(400, "ErrorInvalidPropertySet", "Only a draft takes attachments.")
        return stored


def _read_send(body: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Read the parameters of sendMail; their names may be written in any case."""
    message: dict[str, Any] | None = None
    keep = True
    for name, value in body.items():
        match name.lower():
            case "message":
                message = read_typed("message", value)
            case "savetosentitems":
                if not isinstance(value, bool | None):
                    raise GraphRefusal(400, "RequestBodyRead", "The value of 'SaveToSentItems' must be a Boolean.")
                keep = value is not False
            case _ if "@odata." not in name:
                raise GraphRefusal(
                    400,
                    "RequestBodyRead",
                    f"The parameter '{name}' is not a valid parameter of the operation 'sendMail'.",
                )
    if message is None:
        raise GraphRefusal(400, "ErrorInvalidParameter", "The parameter 'Message' is missing.")
    return message, keep


def _applied(call: Call) -> dict[str, str]:
    return {"Preference-Applied": 'IdType="ImmutableId"'} if call.wants_immutable_ids else {}
