-- step 1: conversations and messages

-- The host takes ids from here in blocks, so ids do not follow time: "newest" is created_at.
CREATE SEQUENCE chat_conversation_id AS bigint;

-- What changes with each message, beside what never does. A post changes counters, last_entry_uuid
-- and last_at, none of which an index knows, so its UPDATE is heap-only; the fill factor leaves the
-- room. When a side goes from read to unread or back (has_unreadN), and with the first post of an
-- hour (last_hour), PostgreSQL writes anew into every index of the table: there are few here, those
-- for finding a conversation are chat_directory's.
CREATE TABLE chat_conversation (
    id bigint PRIMARY KEY,
    organisation bigint,
    entries bigint NOT NULL,
    last_at timestamptz NOT NULL,
    last_hour timestamp NOT NULL
        GENERATED ALWAYS AS (date_trunc('hour', last_at AT TIME ZONE 'UTC')) STORED,
    unread1 int NOT NULL,
    unread2 int NOT NULL,
    has_unread1 boolean NOT NULL GENERATED ALWAYS AS (unread1 > 0) STORED,
    has_unread2 boolean NOT NULL GENERATED ALWAYS AS (unread2 > 0) STORED,
    head_uuid uuid NOT NULL,
    last_entry_uuid uuid NOT NULL,
    participant1 text NOT NULL,
    participant2 text NOT NULL CHECK (participant2 <> participant1),
    device_project_name text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Unread counts: only the conversations with something unread are in these.
CREATE INDEX chat_conversation_unread1 ON chat_conversation (participant1) WHERE has_unread1;
CREATE INDEX chat_conversation_unread2 ON chat_conversation (participant2) WHERE has_unread2;

-- Lists, latest activity first: sorted by hour here, inside the hour by an incremental sort.
CREATE INDEX chat_conversation_active1 ON chat_conversation (participant1, last_hour);
CREATE INDEX chat_conversation_active2 ON chat_conversation (participant2, last_hour);

-- What never changes, to find a conversation by: written once, with the conversation.
CREATE TABLE chat_directory (
    id bigint PRIMARY KEY,
    organisation bigint,
    created_at timestamptz NOT NULL,
    head_uuid uuid NOT NULL,
    participant1 text NOT NULL,
    participant2 text NOT NULL,
    device_project_name text,
    CONSTRAINT chat_directory_head UNIQUE (head_uuid)
);

-- The newest by each set of filters.
CREATE INDEX chat_directory_newest ON chat_directory (created_at, id);
CREATE INDEX chat_directory_newest_of ON chat_directory (organisation, created_at, id)
    WHERE organisation IS NOT NULL;
CREATE INDEX chat_directory_newest1 ON chat_directory (participant1, created_at, id);
CREATE INDEX chat_directory_newest2 ON chat_directory (participant2, created_at, id);
CREATE INDEX chat_directory_pair ON chat_directory (participant1, participant2, created_at, id);
CREATE INDEX chat_directory_name
    ON chat_directory (device_project_name, participant1, participant2, created_at)
    WHERE device_project_name IS NOT NULL;

-- The order of a chain is seq. It comes from the conversation's row, which the post's UPDATE holds
-- locked, so it has no gap and no fork; nobody stores "next".
CREATE TABLE chat_entry (
    conversation_id bigint NOT NULL,
    seq bigint NOT NULL,
    uuid uuid NOT NULL,
    username text NOT NULL,
    chat_entry text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (conversation_id, seq)
) PARTITION BY HASH (conversation_id);

CREATE TABLE chat_entry_0 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 0);
CREATE TABLE chat_entry_1 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 1);
CREATE TABLE chat_entry_2 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 2);
CREATE TABLE chat_entry_3 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 3);
CREATE TABLE chat_entry_4 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 4);
CREATE TABLE chat_entry_5 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 5);
CREATE TABLE chat_entry_6 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 6);
CREATE TABLE chat_entry_7 PARTITION OF chat_entry FOR VALUES WITH (MODULUS 8, REMAINDER 7);

-- step 2: the live stream

-- The transaction that stored a message: a reader who knows a snapshot finds what has become
-- visible since, though transactions do not commit in the order of their numbers. What was stored
-- before this step has none and is never streamed.
ALTER TABLE chat_entry ADD COLUMN xid xid8;
ALTER TABLE chat_entry ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
CREATE INDEX chat_entry_xid ON chat_entry (xid);
