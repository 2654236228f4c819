"""A conversation by the Python client generated from the reference: talk.py URL EMAIL PASSWORD EMAIL PASSWORD.

The types of the client must have the names of the document. The first person writes, the second one reads and answers.
Exits with 1 at an unexpected response.
"""

import re
import sys

from busbar_client import AuthenticatedClient, Client
from busbar_client.api.accounts_and_tokens import get_admin_users, post_auth_login
from busbar_client.api.conversations import (
    get_chat_chain_by_head_uuid,
    get_chat_unread_count_by_email,
    patch_chat_conversations_by_id_read,
    post_chat_conversations_by_id_messages,
    post_chat_conversations_start,
)
from busbar_client import models
from busbar_client.models import Conversation, Error, Login, Message, NewConversation, NewMessage, ReadMark

# The types of the main objects. A type with a name such as PostDeviceBody or GetDeviceResponse200 would not be named.
NAMED = """Account ApiClient AuditRecord BulkUpload Certificate CertificateEntry Conversation Delivery Device DeviceFields
DeviceGroup Document Message NewConversation NewMessage NewReadings NewWebhook Organization Reading Session Webhook
WebhookChange""".split()


def same(got, expected):
    if got != expected:
        raise SystemExit(f"{got!r} instead of {expected!r}")


def good(answer):
    """Returns a successful response; ends the program if it is an error of the document."""
    if answer is None or isinstance(answer, Error):
        raise SystemExit(f"refused: {answer}")
    return answer


def login(url, username, password):
    answer = post_auth_login.sync(
        client=Client(base_url=url), body=Login(username=username, password=password)
    )
    return AuthenticatedClient(base_url=url, token=good(answer).access_token)


def unread(client, email):
    return good(get_chat_unread_count_by_email.sync(email, client=client)).count


def all_have_names():
    """Ends the program if a type has no name of the document."""
    same([name for name in NAMED if not hasattr(models, name)], [])
    same([name for name in dir(models) if re.search(r"(Body|Response\d+)", name)], [])


def main(url, alice, alice_password, bob, bob_password):
    first, second = login(url, alice, alice_password), login(url, bob, bob_password)
    started = good(
        post_chat_conversations_start.sync(
            client=first,
            body=NewConversation(
                participant1=alice, participant2=bob, username=alice, chat_entry="typed by a program"
            ),
        )
    )
    conversation = started.conversation

    same(type(conversation), Conversation)
    same(started.message.chat_entry, "typed by a program")
    same(unread(second, bob), 1)
    good(
        post_chat_conversations_by_id_messages.sync(
            conversation.id,
            client=second,
            body=NewMessage(username=bob, chat_entry="answered by another"),
        )
    )
    good(
        patch_chat_conversations_by_id_read.sync(
            conversation.id, client=second, body=ReadMark(email=bob)
        )
    )
    same(unread(second, bob), 0)

    chain = good(get_chat_chain_by_head_uuid.sync(conversation.head_uuid, client=first))

    same({type(entry) for entry in chain}, {Message})
    same([entry.username for entry in chain], [alice, bob])
    same(chain[-1].next_entry_uuid, None)
    same(get_admin_users.sync_detailed(client=first).status_code, 403)


all_have_names()
main(*sys.argv[1:])
