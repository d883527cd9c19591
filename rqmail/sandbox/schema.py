"""What a message may look like in a request: Graph refuses every property and type it does not know."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rqmail.sandbox.answers import GraphRefusal

#: For each Graph type its properties; a list means a collection, a ``|`` an enumeration.
_TYPES: Mapping[str, Mapping[str, str | list[str]]] = {
    "message": {
        "attachments": ["attachment"],
        "bccRecipients": ["recipient"],
        "body": "itemBody",
        "bodyPreview": "Edm.String",
        "categories": ["Edm.String"],
        "ccRecipients": ["recipient"],
        "changeKey": "Edm.String",
        "conversationId": "Edm.String",
        "conversationIndex": "Edm.Binary",
        "createdDateTime": "Edm.DateTimeOffset",
        "flag": "followupFlag",
        "from": "recipient",
        "hasAttachments": "Edm.Boolean",
        "id": "Edm.String",
        "importance": "low|normal|high",
        "inferenceClassification": "focused|other",
        "internetMessageHeaders": ["internetMessageHeader"],
        "internetMessageId": "Edm.String",
        "isDeliveryReceiptRequested": "Edm.Boolean",
        "isDraft": "Edm.Boolean",
        "isRead": "Edm.Boolean",
        "isReadReceiptRequested": "Edm.Boolean",
        "lastModifiedDateTime": "Edm.DateTimeOffset",
        "multiValueExtendedProperties": ["multiValueLegacyExtendedProperty"],
        "parentFolderId": "Edm.String",
        "receivedDateTime": "Edm.DateTimeOffset",
        "replyTo": ["recipient"],
        "sender": "recipient",
        "sentDateTime": "Edm.DateTimeOffset",
        "singleValueExtendedProperties": ["singleValueLegacyExtendedProperty"],
        "subject": "Edm.String",
        "toRecipients": ["recipient"],
        "uniqueBody": "itemBody",
        "webLink": "Edm.String",
    },
    "recipient": {"emailAddress": "emailAddress"},
    "emailAddress": {"address": "Edm.String", "name": "Edm.String"},
    "itemBody": {"contentType": "text|html", "content": "Edm.String"},
    "internetMessageHeader": {"name": "Edm.String", "value": "Edm.String"},
    "singleValueLegacyExtendedProperty": {"id": "Edm.String", "value": "Edm.String"},
    "multiValueLegacyExtendedProperty": {"id": "Edm.String", "value": ["Edm.String"]},
    "attachment": {
        "contentBytes": "Edm.Binary",
        "contentId": "Edm.String",
        "contentLocation": "Edm.String",
        "contentType": "Edm.String",
        "id": "Edm.String",
        "isInline": "Edm.Boolean",
        "lastModifiedDateTime": "Edm.DateTimeOffset",
        "name": "Edm.String",
        "size": "Edm.Int32",
    },
    "followupFlag": {
        "completedDateTime": "dateTimeTimeZone",
        "dueDateTime": "dateTimeTimeZone",
        "flagStatus": "notFlagged|complete|flagged",
        "startDateTime": "dateTimeTimeZone",
    },
    "dateTimeTimeZone": {"dateTime": "Edm.String", "timeZone": "Edm.String"},
    "attachmentItem": {
        "attachmentType": "file|item|reference",
        "contentId": "Edm.String",
        "contentType": "Edm.String",
        "isInline": "Edm.Boolean",
        "name": "Edm.String",
        "size": "Edm.Int64",
    },
}
_PROPERTY_ID = re.compile(
    r"(String|Integer|Long|Boolean|Double|Float|Short|Binary|SystemTime|CLSID|Currency|ApplicationTime)(Array)? "
    r"(\{?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\}? (Name \S.*|Id 0x[0-9a-fA-F]+)|0x[0-9a-fA-F]+)"
)


def read_typed(type_name: str, value: Any) -> dict[str, Any]:
    """Check ``value`` against a Graph type and answer its known properties, without nulls and annotations."""
    if not isinstance(value, dict):
        raise _unreadable(f"A value of type 'microsoft.graph.{type_name}' must be a JSON object.")
    known = _TYPES[type_name]
    result: dict[str, Any] = {}
    for name, member in value.items():
        if "@odata." in name:
            if type_name == "attachment" and name == "@odata.type":
                result[name] = _attachment_type(member)
            continue
        expected = known.get(name)
        if expected is None:
            raise _unreadable(
                f"The property '{name}' does not exist on type 'microsoft.graph.{type_name}'. Make sure to only use "
                "property names that are defined by the type or mark the type as open type."
            )
        if isinstance(expected, list):
            if not isinstance(member, list):
                raise _unreadable(f"The property '{name}' is a collection; a JSON array was expected.")
            result[name] = [_read_one(expected[0], name, item) for item in member]
        elif member is not None:
            result[name] = _read_one(expected, name, member)
    if type_name.endswith("LegacyExtendedProperty") and not _PROPERTY_ID.fullmatch(str(result.get("id", ""))):
        raise GraphRefusal(400, "ErrorInvalidRequest", "The id of an extended property is not valid.")
    return result


def _read_one(expected: str, name: str, value: Any) -> Any:
    if "|" in expected:
        for choice in expected.split("|"):
            if isinstance(value, str) and value.lower() == choice.lower():
                return choice
        raise _unreadable(f"The value of the property '{name}' is not one of {expected.replace('|', ', ')}.")
    if not expected.startswith("Edm."):
        return read_typed(expected, value)
    if not _is_primitive(expected, value):
        raise _unreadable(f"The value of the property '{name}' cannot be converted to the expected type '{expected}'.")
    return value


def _is_primitive(expected: str, value: Any) -> bool:
    match expected:
        case "Edm.Boolean":
            return isinstance(value, bool)
        case "Edm.Int32" | "Edm.Int64":
            return isinstance(value, int) and not isinstance(value, bool)
        case "Edm.Binary":
            return isinstance(value, str) and _is_base64(value)
        case "Edm.DateTimeOffset":
            return isinstance(value, str) and _is_moment(value)
        case _:
            return isinstance(value, str)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _attachment_type(value: Any) -> str:
    if value != "#microsoft.graph.fileAttachment":
        raise GraphRefusal(400, "ErrorNotSupported", "The sandbox takes file attachments only.")
    return str(value)


def _unreadable(message: str) -> GraphRefusal:
    return GraphRefusal(400, "RequestBodyRead", message)
