/* The tables of the chat module, hand-formatted: clang-format would spread a row over six lines. */
#include "modules/chat/chat.h"

#include "modules/chat/schema.h"
#include "modules/common/tables.h"

#define CHAT_POOL "files"

// clang-format off

static const char *const ownership[] = {"scoped", "open", NULL};

#define SETTINGS struct chat_settings
static const struct bb_field settings[] = {
    SETTING_CHOICE(ownership, ownership, "scoped",
        "scoped: callers see only their own conversations. open: every account sees all "
        "conversations and may write as anybody."),
    SETTING_INT(max_entry_bytes, 0, 1, 4194304, "1048576",
        "Maximum length of a message in bytes of UTF-8."),
    SETTING_BOOL(message_new_on_start, "false",
        "Whether the start of a conversation raises message.new in addition to "
        "conversation.created."),
    SETTING_INT(cached_conversations, 0, 64, 16777216, "131072",
        "Maximum number of conversations in the cache of a host."),
    SETTING_INT(stream_interval, BB_MILLISECONDS, 5, 1000, "50",
        "Milliseconds between two queries for new messages while streams are open."),
    SETTING_INT(stream_heartbeat, BB_SECONDS, 1, 300, "15",
        "Seconds without an event after which a stream sends a heartbeat."),
    SETTING_INT(stream_buffer, 0, 64, 65536, "1024",
        "Maximum number of KiB buffered for a slow client. Further messages are read from the "
        "database when the client continues to read."),
    SETTING_INT(long_answers, 0, 1, 4096, "64",
        "Maximum number of responses over 200 rows or 128 KiB that a host sends at a time. Each needs a few MiB."),
    SETTING_INT(long_answers_per_account, 0, 1, 4096, "16",
        "Maximum number of such long responses (see long_answers) that a host sends to an account at a time."),
    SETTING_INT(streams_per_account, 0, 1, 1000000, "256",
        "Maximum number of open streams of an account on each host."),
    SETTING_INT(retention_days, BB_DAYS, 0, 36500, "0",
        "Days after the last message of a conversation until its messages, except the latest, move "
        "to the document store. 0: never. See docs/chat.md, \"The archive\"."),
};

static const struct bb_field email_segment[] = {
    {.name = "email", .type = BB_EMAIL, .help = "The participant's e-mail.",
     .example = "operator@example.com"},
};
static const struct bb_field id_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The conversation."},
};
static const struct bb_field head_segment[] = {
    {.name = "headUuid", .type = BB_UUID, .help = "headUuid of the conversation."},
};

static const struct bb_field list_query[] = {
    QUERY_LIMIT(1000, "Conversations per page."),
    QUERY_AFTER(.type = BB_TEXT, .max = 64),
    {.name = "unread", .type = BB_BOOL,
     .help = "true: adds unread1 and unread2 to each conversation."},
};
static const struct bb_field seen_query[] = {
    QUERY_LIMIT(200, "Conversations per page (default 50)."),
    QUERY_AFTER(.type = BB_TEXT, .max = 64),
    {.name = "mine", .type = BB_BOOL, .help = "true: only conversations in which you take part."},
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "Only this conversation."},
    QUERY_ORGANIZATION("Only conversations of this organization."),
    {.name = "search", .type = BB_TEXT, .max = 100,
     .help = "Only conversations with this text, in any case, in an e-mail, name or device name."},
    {.name = "closed", .type = BB_BOOL,
     .help = "true: only closed conversations. false: only open ones."},
};
static const struct bb_field search_query[] = {
    {.name = "q", .type = BB_TEXT, .flags = BB_REQUIRED, .min = 1, .max = 100,
     .help = "Up to 30 words. A message must have a word that begins with each of them, in any "
             "case. Characters of scripts without spaces match anywhere.", .example = "inverter"},
    QUERY_LIMIT(200, "Messages per page (default 50)."),
    {.name = "after", .type = BB_TEXT, .max = 100,
     .help = "Cursor. Take it from the `Link` header of the previous page, which may have fewer "
             "messages than `limit`."},
    {.name = "mine", .type = BB_BOOL, .help = "true: only conversations in which you take part."},
    {.name = "conversationId", .type = BB_INT, .min = 1, .max = INT64_MAX,
     .help = "Only messages of this conversation."},
    QUERY_ORGANIZATION("Only conversations of this organization."),
};
static const char *const orders[] = {"asc", "desc", NULL};
static const struct bb_field chain_query[] = {
    QUERY_LIMIT(1000, "Messages per page. Default: all."),
    {.name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX,
     .help = "Cursor: the number of messages that you already have. Take it from the `Link` header "
             "of the previous page."},
    {.name = "order", .type = BB_CHOICE, .choices = orders,
     .help = "desc: the latest messages first, in pages of up to 1 MiB of text (default limit: 50). "
             "Default: asc."},
    {.name = "before", .type = BB_INT, .min = 1, .max = INT64_MAX,
     .help = "Cursor with order=desc. Take it from the `Link` header of the previous page."},
};

#define PARTICIPANT(key, email)                                                                    \
    {.name = (key), .type = BB_EMAIL, .flags = BB_NULLABLE, .example = (email),                    \
     .help = "E-mail of a participant. The order of the two does not matter."}
static const struct bb_field find_body[] = {
    PARTICIPANT("participant1", "operator@example.com"),
    PARTICIPANT("participant2", "admin@example.com"),
    {.name = "deviceProjectName", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM,
     .help = "Exact match.", .example = "Rooftop 7"},
};
static const struct bb_field start_query[] = {
    QUERY_ORGANIZATION("The organization of the conversation. If the body also has an "
                       "organizationId, the body takes precedence."),
};
#define POSTED(text)                                                                              \
    {.name = "username", .type = BB_EMAIL, .flags = BB_REQUIRED,                                   \
     .help = "Author of the message: one of the two participants.",                                \
     .example = "operator@example.com"},                                                           \
    {.name = "chatEntry", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK | BB_VERBATIM,      \
     .help = "The text of the message, by default up to 1 MiB.", .example = (text)}

static const struct bb_field start_body[] = {
    {.name = "participant1", .type = BB_EMAIL, .flags = BB_REQUIRED,
     .help = "E-mail of one participant.", .example = "operator@example.com"},
    {.name = "participant2", .type = BB_EMAIL, .flags = BB_REQUIRED,
     .help = "E-mail of the other participant.", .example = "admin@example.com"},
    POSTED("Is the meter reading right?"),
    {.name = "deviceProjectName", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM, .max = 255,
     .help = "The device or site that the conversation is about.", .example = "Rooftop 7"},
    {.name = "organizationId", .type = BB_INT, .flags = BB_NULLABLE, .min = 1, .max = INT64_MAX,
     .help = "The organization of the conversation. Default: your organization."},
};
static const struct bb_field post_body[] = {
    POSTED("The inverter is online again."),
};
static const struct bb_field attach_body[] = {
    {.name = "username", .type = BB_EMAIL, .flags = BB_REQUIRED,
     .help = "Author of the message: one of the two participants.",
     .example = "operator@example.com"},
    {.name = "chatEntry", .type = BB_TEXT, .flags = BB_NOT_BLANK | BB_VERBATIM,
     .help = "The text of the message. Default: no text.", .example = "The type plate."},
};
static const struct bb_part attach_parts[] = {
    {.name = "message", .kind = BB_PART_FIELDS, .flags = BB_REQUIRED,
     .help = "The fields, as a JSON object."},
    {.name = "files", .kind = BB_PART_FILES, .flags = BB_REQUIRED, .count_max = 10,
     .bytes_max = 10485760, .help = "Files of up to 10 MiB."},
};
static const struct bb_field attachment_segments[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The conversation."},
    {.name = "attachmentId", .type = BB_UUID, .help = "id of the attachment."},
};
static const struct bb_field typing_body[] = {
    {.name = "username", .type = BB_EMAIL, .flags = BB_REQUIRED,
     .help = "E-mail of the person, as for a message.", .example = "operator@example.com"},
};
static const struct bb_field read_body[] = {
    {.name = "email", .type = BB_EMAIL, .flags = BB_REQUIRED,
     .help = "E-mail of the participant who has read the messages.",
     .example = "operator@example.com"},
    {.name = "before", .type = BB_INT, .min = 1, .max = INT64_MAX,
     .help = "Place of a message in its chain, from 1. It and all later ones become unread."},
};

#define EMAIL(key, email)                                                                          \
    {.name = (key), .type = BB_EMAIL, .flags = BB_REQUIRED, .example = (email)}
#define PARTICIPANTS                                                                               \
    EMAIL("participant1", "operator@example.com"), EMAIL("participant2", "admin@example.com")
#define DEVICE_NAME                                                                                \
    {.name = "deviceProjectName", .type = BB_TEXT, .flags = NULLABLE, .example = "Rooftop 7"}
#define CONVERSATION                                                                               \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED}, PARTICIPANTS,                            \
    {.name = "headUuid", .type = BB_UUID, .flags = BB_REQUIRED,                                    \
     .help = "uuid of the first message."},                                                        \
    {.name = "lastEntryUuid", .type = BB_UUID, .flags = BB_REQUIRED,                               \
     .help = "uuid of the latest message."},                                                       \
    DEVICE_NAME
#define UNREAD(bits)                                                                               \
    {.name = "unread1", .type = BB_INT, .flags = (bits),                                           \
     .help = "Messages that participant1 has not read."},                                          \
    {.name = "unread2", .type = BB_INT, .flags = (bits),                                           \
     .help = "Messages that participant2 has not read."}
#define ORGANIZATION {.name = "organizationId", .type = BB_INT, .flags = NULLABLE, .example = "2"}
#define NAMES                                                                                      \
    {.name = "name1", .type = BB_TEXT, .flags = NULLABLE, .example = "Ada Example",                \
     .help = "Name of participant1; null without an account. Others than Admins get it once the "   \
             "participant, approved before the conversation began, has written or read here."},     \
    {.name = "name2", .type = BB_TEXT, .flags = NULLABLE, .help = "Name of participant2.",         \
     .example = "null"}

static const struct bb_field listed_conversation[] = {CONVERSATION, UNREAD(0)};
#define MESSAGE                                                                                    \
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},                                       \
    EMAIL("username", "operator@example.com"),                                                     \
    {.name = "chatEntry", .type = BB_TEXT, .flags = BB_REQUIRED,                                   \
     .example = "The inverter is online again."}
static const struct bb_field attachment[] = {
    {.name = "id", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "name", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "The file name as it was sent.",
     .example = "plate.jpg"},
    {.name = "size", .type = BB_INT, .flags = BB_REQUIRED, .help = "Size in bytes.", .example = "48213"},
    {.name = "contentType", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Media type, detected from the content.", .example = "image/jpeg"},
};
#define ATTACHMENTS(bits)                                                                          \
    {.name = "attachments", .type = BB_LIST, .flags = (bits), .fields = BB_ITEMS(attachment),      \
     .help = "The files of the message; absent if there are none."}

static const struct bb_field last_message[] = {
    EMAIL("username", "operator@example.com"),
    {.name = "chatEntry", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "The first 200 characters.",
     .example = "The inverter is online again."},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED}, ATTACHMENTS(0),
};
const struct bb_field chat_fields[] = {
    CONVERSATION, UNREAD(BB_REQUIRED), ORGANIZATION,
    {.name = "lastMessage", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .fields = BB_TABLE(last_message)},
    NAMES,
    {.name = "closed", .type = BB_BOOL, .flags = BB_REQUIRED,
     .help = "Whether it was closed after its last message."},
};
const struct bb_field chat_found_fields[] = {
    {.name = "uuid", .type = BB_UUID, .flags = BB_REQUIRED},
    {.name = "conversationId", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "place", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "Place of the message in its chain, from 1. A page of the chain begins with it if "
             "`after` is one less."},
    EMAIL("username", "operator@example.com"),
    {.name = "excerpt", .type = BB_TEXT, .flags = BB_REQUIRED,
     .help = "Up to 240 characters of the text, around the first match. `…` stands for the rest.",
     .example = "The inverter is online again."},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
    PARTICIPANTS, DEVICE_NAME, ORGANIZATION, NAMES,
};
#define CREATED_AT {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED}

static const struct bb_field first_message[] = {MESSAGE};
static const struct bb_field message[] = {MESSAGE, CREATED_AT};
static const struct bb_field new_message[] = {MESSAGE, CREATED_AT, ATTACHMENTS(0)};
#define CHAINED                                                                                    \
    MESSAGE,                                                                                       \
    {.name = "nextEntryUuid", .type = BB_UUID, .flags = NULLABLE,                                  \
     .help = "uuid of the next message; null in the last message."}, CREATED_AT
static const struct bb_field chained_message[] = {CHAINED, ATTACHMENTS(0)};
static const struct bb_field attached_message[] = {CHAINED, ATTACHMENTS(BB_REQUIRED)};

/* In a reply whose only field is named ".", that field is the whole body instead of a member. */
static const struct bb_field name_item[] = {
    {.name = "item", .type = BB_TEXT, .example = "Rooftop 7"},
};
static const struct bb_field find_reply[] = {
    {.name = ".", .type = BB_OBJECT, .flags = BB_NULLABLE, .fields = BB_TABLE(listed_conversation)},
};
static const struct bb_field start_reply[] = {
    {.name = "conversation", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .fields = BB_TABLE(listed_conversation)},
    {.name = "message", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(message)},
};
static const struct bb_field count_reply[] = {
    {.name = "count", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "The number of unread messages."},
};
static const struct bb_field devices_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(name_item)},
};

static const int absent[] = {404, 0}; /* 404: the organization does not exist */

static const struct bb_route routes[] = {
    {.method = "GET", .path = "/api/chat/conversations/user/:email", .roles = BB_ANY_ROLE,
     .handler = chat_list, .segments = BB_TABLE(email_segment), .query = BB_TABLE(list_query),
     .reply = BB_ARRAY_OF(listed_conversation),
     .help = "List the conversations of an e-mail, latest activity first."},
    {.method = "GET", .path = "/api/chat/conversations", .roles = BB_ANY_ROLE,
     .handler = chat_seen, .query = BB_TABLE(seen_query),
     .reply = BB_ARRAY_OF(chat_fields),
     .help = "List all conversations that you see, with their last messages, latest activity "
             "first."},
    {.method = "GET", .path = "/api/chat/search", .roles = BB_ANY_ROLE,
     .handler = chat_search, .query = BB_TABLE(search_query),
     .reply = BB_ARRAY_OF(chat_found_fields),
     .help = "Find messages by words of their texts in the conversations that you see, newest "
             "first. Continue with the `Link` header: a page reads a limited number of messages, "
             "so it may be empty although more follow."},
    {.method = "POST", .path = "/api/chat/conversations/find", .roles = BB_ANY_ROLE,
     .handler = chat_find, .flags = BB_NO_BODY, .body = BB_TABLE(find_body),
     .reply = BB_TABLE(find_reply),
     .help = "Find a conversation. Returns the newest match, or null."},
    {.method = "POST", .path = "/api/chat/conversations/start", .roles = BB_ANY_ROLE,
     .handler = chat_start, .errors = absent, .flags = BB_CREATES, .query = BB_TABLE(start_query),
     .body = BB_TABLE(start_body),
     .body_max = 8388608, .success = 201, .reply = BB_TABLE(start_reply),
     .help = "Start a conversation with its first message. This always creates a new conversation; "
             "to continue an earlier one, search for it with find."},
    {.method = "POST", .path = "/api/chat/conversations/:id/messages", .roles = BB_ANY_ROLE,
     .handler = chat_post, .flags = BB_CREATES, .segments = BB_TABLE(id_segment),
     .body = BB_TABLE(post_body), .body_max = 8388608, .success = 201,
     .reply = BB_TABLE(chained_message), .help = "Post a message to a conversation."},
    {.method = "POST", .path = "/api/chat/conversations/:id/attachments", .roles = BB_ANY_ROLE,
     .handler = chat_attach, .errors = conflict, .flags = BB_CREATES,
     .segments = BB_TABLE(id_segment), .body = BB_TABLE(attach_body), .body_max = 8388608,
     .parts = BB_TABLE(attach_parts), .files_max = 104857600, .files_in = "device.documents",
     .files_pool = CHAT_POOL, .files_failed = chat_files_failed, .deadline_ms = 60000, .success = 201,
     .reply = BB_TABLE(attached_message),
     .help = "Post a message with up to 10 files to a conversation, as multipart/form-data."},
    {.method = "GET", .path = "/api/chat/conversations/:id/attachments/:attachmentId",
     .roles = BB_ANY_ROLE, .handler = chat_attachment, .errors = conflict,
     .segments = BB_TABLE(attachment_segments), .reply_type = "*/*", .deadline_ms = 60000,
     .help = "Download an attachment of a message."},
    {.method = "POST", .path = "/api/chat/conversations/:id/typing", .roles = BB_ANY_ROLE,
     .handler = chat_typing, .segments = BB_TABLE(id_segment), .body = BB_TABLE(typing_body),
     .success = 204,
     .help = "Show other people that somebody is typing: their live streams get the event `typing`. "
             "Send it at most every 4 seconds."},
    {.method = "PATCH", .path = "/api/chat/conversations/:id/read", .roles = BB_ANY_ROLE,
     .handler = chat_read, .segments = BB_TABLE(id_segment), .body = BB_TABLE(read_body),
     .reply = BB_TABLE(success_reply),
     .help = "Mark a conversation as read for a participant, or unread from a message on."},
    {.method = "POST", .path = "/api/chat/conversations/:id/share",
     .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
     .handler = chat_share, .flags = BB_NO_BODY | BB_AUDITED, .segments = BB_TABLE(id_segment),
     .reply = BB_TABLE(success_reply),
     .help = "Share a conversation with the accounts of its participants. If an account was "
             "approved after the conversation began, it sees the conversation only after you share "
             "it."},
    {.method = "POST", .path = "/api/chat/conversations/:id/close",
     .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
     .handler = chat_close_conversation, .flags = BB_NO_BODY | BB_AUDITED,
     .segments = BB_TABLE(id_segment), .reply = BB_TABLE(success_reply),
     .help = "Close a conversation for everybody. The next message reopens it."},
    {.method = "POST", .path = "/api/chat/conversations/:id/reopen",
     .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
     .handler = chat_reopen, .flags = BB_NO_BODY | BB_AUDITED, .segments = BB_TABLE(id_segment),
     .reply = BB_TABLE(success_reply), .help = "Reopen a closed conversation."},
    {.method = "GET", .path = "/api/chat/chain/:headUuid", .roles = BB_ANY_ROLE,
     .handler = chat_chain, .segments = BB_TABLE(head_segment), .query = BB_TABLE(chain_query),
     .reply = BB_ARRAY_OF(chained_message),
     .help = "List the messages of a conversation, oldest first, or latest first."},
    {.method = "GET", .path = "/api/chat/unread-count/:email", .roles = BB_ANY_ROLE,
     .handler = chat_unread_count, .segments = BB_TABLE(email_segment),
     .reply = BB_TABLE(count_reply), .help = "Count the unread messages of an e-mail."},
    {.method = "GET", .path = "/api/chat/unread-devices/:email", .roles = BB_ANY_ROLE,
     .handler = chat_unread_devices, .segments = BB_TABLE(email_segment),
     .reply = BB_TABLE(devices_reply),
     .help = "List the device names with unread messages, newest first."},
    {.method = "GET", .path = "/api/chat/stream", .roles = BB_ANY_ROLE, .handler = chat_stream,
     .reply_type = "text/event-stream",
     .help = "Receive the events of your conversations live (Server-Sent Events). Events have the "
             "same names and data as in webhooks; `typing` says who is typing. Reconnect with "
             "`Last-Event-ID` to get the events that you missed. The event `reset` means that the "
             "missed events are not available any more: read the chains again."},
};

static const struct bb_field created_conversation[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED | BB_KEY},
    PARTICIPANTS, DEVICE_NAME,
};
static const struct bb_field created_payload[] = {
    {.name = "conversation", .type = BB_OBJECT, .flags = BB_REQUIRED,
     .fields = BB_TABLE(created_conversation)},
    {.name = "message", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(first_message)},
};
static const struct bb_field new_payload[] = {
    {.name = "conversationId", .type = BB_INT, .flags = BB_REQUIRED | BB_KEY},
    {.name = "message", .type = BB_OBJECT, .flags = BB_REQUIRED, .fields = BB_TABLE(new_message)},
    DEVICE_NAME,
};

static const struct bb_event_descriptor events[] = {
    {.name = "message.new", .version = 1, .payload = BB_TABLE(new_payload),
     .help = "A message was added to a conversation."},
    {.name = "conversation.created", .version = 1, .payload = BB_TABLE(created_payload),
     .help = "A conversation was started."},
};

static const char *const listener_states[] = {"joined", "behind", NULL};

static const struct bb_metric metrics[] = {
    {.name = "listeners", .kind = BB_GAUGE, .label = "state", .values = listener_states,
     .read = chat_listeners,
     .help = "Open live streams. A stream in the state `joined` is up to date; other streams still "
             "read earlier events."},
    {.name = "events_read_total", .kind = BB_COUNTER,
     .help = "Events that were read from the database for the live streams of this host."},
    {.name = "catch_up_pages_total", .kind = BB_COUNTER,
     .help = "Pages of events that were read from the database for live streams that lag or "
             "resume."},
    {.name = "archived_messages_total", .kind = BB_COUNTER,
     .help = "Messages that this host has moved to the document store."},
    {.name = "restored_parts_total", .kind = BB_COUNTER,
     .help = "Parts of conversations, of about 1 MiB, that this host has read from the document "
             "store because their messages were requested."},
};

static const struct bb_need needs[] = {{"accounts", 1}};
static const struct bb_need wants[] = {{"devices", 1}, {BB_DOCUMENTS "*", 1}};

static const struct bb_channel channels[] = {
    {.name = CHAT_CHANNEL, .heard = chat_heard},
    {.name = CHAT_TYPING_CHANNEL, .heard = chat_typing_heard},
};

static const struct bb_pool pools[] = {{.name = CHAT_POOL, .threads = 2, .queue = 256}};

static const struct bb_job jobs[] = {
    {.name = "unread", .every_s = 2, .flags = BB_ONCE, .run = chat_add_up},
    {.name = "archive", .every_s = 60, .flags = BB_ONCE, .run = chat_archive},
};

static const struct bb_command commands[] = {
    {.name = "chat archive", .run = chat_command_archive, .flags = BB_COMMAND_LONG,
     .help = "Moves old messages to the document store at once, as the job does."},
    {.name = "chat restore", .run = chat_command_restore, .flags = BB_COMMAND_LONG,
     .help = "Moves all archived messages back to the database."},
    {.name = "chat doctor", .run = chat_command_doctor, .options = BB_TABLE(doctor_options),
     .flags = BB_COMMAND_LONG,
     .help = "Lists archived messages whose file is missing in the store or has another size; part "
             "of `busbar doctor`."},
};

static const struct bb_service_descriptor services[] = {
    {.name = "conversations", .version = 1, .interface = &chat_conversations},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("chat", "1.0.0"),
    .help = "Conversations between external platforms and administrators, with unread counts and a live stream.",
    .schema = chat_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct chat_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .wants = BB_TABLE(wants),
    .channels = BB_TABLE(channels),
    .pools = BB_TABLE(pools),
    .jobs = BB_TABLE(jobs),
    .commands = BB_TABLE(commands),
    .open = chat_open,
    .close = chat_close,
    .metrics = BB_TABLE(metrics),
};
