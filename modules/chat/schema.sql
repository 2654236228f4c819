-- step 1: conversations and messages, the live stream, how much is unread

-- Hosts take ids from here in blocks, so ids are not in the order of time. The newest conversation is the one
-- with the latest created_at.
CREATE SEQUENCE chat_conversation_id AS bigint;

-- Conversations, with the columns that each message changes. A post changes counters, last_entry_uuid and
-- last_at. No index contains these columns, so the UPDATE is HOT; the fill factor leaves space for it. At the first post
-- of an hour (last_hour) PostgreSQL writes a new entry into every index of the table. So the table has few indexes,
-- and chat_directory has those for finding conversations.
CREATE TABLE chat_conversation (
    id bigint PRIMARY KEY,
    organisation bigint,
    entries bigint NOT NULL,
    last_at timestamptz NOT NULL,
    last_hour timestamp NOT NULL
        GENERATED ALWAYS AS (date_trunc('hour', last_at AT TIME ZONE 'UTC')) STORED,
    unread1 int NOT NULL,
    unread2 int NOT NULL,
    head_uuid uuid NOT NULL,
    last_entry_uuid uuid NOT NULL,
    participant1 text NOT NULL,
    participant2 text NOT NULL CHECK (participant2 <> participant1),
    device_project_name text,
    withheld1 boolean NOT NULL DEFAULT false, -- as in chat_directory
    withheld2 boolean NOT NULL DEFAULT false,
    counted bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- For lists, latest activity first: the indexes sort by hour, and an incremental sort within the hour.
CREATE INDEX chat_conversation_active1 ON chat_conversation (participant1, last_hour);
CREATE INDEX chat_conversation_active2 ON chat_conversation (participant2, last_hour);

-- The columns by which conversations are found. They are written once, with the conversation; only withheldN
-- changes. It is true while the account with that participant's e-mail does not see the conversation as the
-- participant: from the start, if no approved account had the e-mail then, or since an approved account with the e-mail
-- got another one, until the platform shares it.
CREATE TABLE chat_directory (
    id bigint PRIMARY KEY,
    organisation bigint,
    created_at timestamptz NOT NULL,
    head_uuid uuid NOT NULL,
    participant1 text NOT NULL,
    participant2 text NOT NULL,
    device_project_name text,
    withheld1 boolean NOT NULL DEFAULT false,
    withheld2 boolean NOT NULL DEFAULT false,
    CONSTRAINT chat_directory_head UNIQUE (head_uuid)
);

-- For finding the newest conversation by each set of filters.
CREATE INDEX chat_directory_newest ON chat_directory (created_at, id);
CREATE INDEX chat_directory_newest_of ON chat_directory (organisation, created_at, id)
    WHERE organisation IS NOT NULL;
CREATE INDEX chat_directory_newest1 ON chat_directory (participant1, created_at, id);
CREATE INDEX chat_directory_newest2 ON chat_directory (participant2, created_at, id);
CREATE INDEX chat_directory_pair ON chat_directory (participant1, participant2, created_at, id);
CREATE INDEX chat_directory_name
    ON chat_directory (device_project_name, participant1, participant2, created_at)
    WHERE device_project_name IS NOT NULL;

-- For platforms that list the conversations of an e-mail in their organizations.
CREATE INDEX chat_directory_organisation1 ON chat_directory (organisation, participant1)
    WHERE organisation IS NOT NULL;
CREATE INDEX chat_directory_organisation2 ON chat_directory (organisation, participant2)
    WHERE organisation IS NOT NULL;

-- Messages. A chain is in the order of seq. The number comes from the conversation's row, which the post's UPDATE
-- locks, so a chain has no gap and no fork, and no message stores its successor. xid is the transaction that stored
-- the message. With it a reader finds the messages that have become visible since its snapshot, although
-- transactions do not commit in the order of their numbers.
CREATE TABLE chat_entry (
    conversation_id bigint NOT NULL,
    seq bigint NOT NULL,
    uuid uuid NOT NULL,
    username text NOT NULL,
    chat_entry text NOT NULL,
    created_at timestamptz NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id(),
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
CREATE INDEX chat_entry_xid ON chat_entry (xid);

-- Large messages are compressed by lz4 if PostgreSQL has it, in a tenth of the time.
DO $$
DECLARE
    part regclass;
BEGIN
    IF (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        FOR part IN SELECT relid FROM pg_partition_tree('chat_entry') LOOP
            EXECUTE format('ALTER TABLE %s ALTER COLUMN chat_entry SET COMPRESSION lz4', part);
        END LOOP;
    END IF;
END
$$;

-- The unread messages of an e-mail in an organization (0: none), with a separate total for withheld conversations.
-- Posts do not update these rows, because they would wait for each other. They insert rows into
-- chat_unread_change, which the job `unread` later adds to the totals. A request for a count adds the total and
-- the changes that are not yet in it, so its duration does not depend on the number of conversations.
CREATE TABLE chat_unread (
    email text NOT NULL,
    organisation bigint NOT NULL,
    withheld boolean NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (email, organisation, withheld)
) WITH (fillfactor = 70);

-- The same totals for each name, with the time of its latest message.
CREATE TABLE chat_unread_name (
    email text NOT NULL,
    organisation bigint NOT NULL,
    withheld boolean NOT NULL,
    name text NOT NULL,
    messages bigint NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (email, organisation, withheld, name)
);
CREATE INDEX chat_unread_name_latest ON chat_unread_name (email, last_at);
CREATE INDEX chat_unread_name_latest_of ON chat_unread_name (email, organisation, last_at);
CREATE INDEX chat_unread_name_none ON chat_unread_name (email) WHERE messages = 0;

CREATE TABLE chat_unread_change (
    email text NOT NULL,
    organisation bigint NOT NULL,
    withheld boolean NOT NULL,
    name text,
    messages bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_threshold = 2147483647);

-- The rows change faster than statistics are made. The planner must always choose the index on the e-mail.
ALTER TABLE chat_unread_change ALTER COLUMN email SET (n_distinct = -0.5);
CREATE INDEX chat_unread_change_email ON chat_unread_change (email);

-- Triggers count every change of a conversation. A statement that inserts its changes itself increases `counted`; for
-- all other updates the trigger inserts them. There is one trigger for them, because PostgreSQL reads the condition
-- of every trigger with every statement.
CREATE FUNCTION chat_unread_begins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chat_unread_change
        SELECT v.email, coalesce(NEW.organisation, 0), v.withheld, NEW.device_project_name,
               v.unread, NEW.last_at
        FROM (VALUES (NEW.participant1, NEW.withheld1, NEW.unread1),
                     (NEW.participant2, NEW.withheld2, NEW.unread2)) v (email, withheld, unread)
        WHERE v.unread > 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION chat_unread_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chat_unread_change
        SELECT v.email, coalesce(OLD.organisation, 0), v.withheld, OLD.device_project_name,
               -v.unread, OLD.last_at
        FROM (VALUES (OLD.participant1, OLD.withheld1, OLD.unread1),
                     (OLD.participant2, OLD.withheld2, OLD.unread2)) v (email, withheld, unread)
        WHERE v.unread > 0;
    RETURN NULL;
END
$$;

CREATE TRIGGER chat_unread_begins AFTER INSERT ON chat_conversation FOR EACH ROW
    WHEN (NEW.unread1 > 0 OR NEW.unread2 > 0) EXECUTE FUNCTION chat_unread_begins();
CREATE TRIGGER chat_unread_ends AFTER DELETE ON chat_conversation FOR EACH ROW
    WHEN (OLD.unread1 > 0 OR OLD.unread2 > 0) EXECUTE FUNCTION chat_unread_ends();

CREATE FUNCTION chat_unread_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chat_unread_change
        SELECT v.email, coalesce(v.organisation, 0), v.withheld, v.name, sum(v.unread), NEW.last_at
        FROM (VALUES (OLD.participant1, OLD.organisation, OLD.withheld1, OLD.device_project_name,
                      -OLD.unread1),
                     (OLD.participant2, OLD.organisation, OLD.withheld2, OLD.device_project_name,
                      -OLD.unread2),
                     (NEW.participant1, NEW.organisation, NEW.withheld1, NEW.device_project_name,
                      NEW.unread1),
                     (NEW.participant2, NEW.organisation, NEW.withheld2, NEW.device_project_name,
                      NEW.unread2)) v (email, organisation, withheld, name, unread)
        GROUP BY v.email, v.organisation, v.withheld, v.name HAVING sum(v.unread) <> 0;
    RETURN NULL;
END
$$;
CREATE TRIGGER chat_unread_changes AFTER UPDATE ON chat_conversation FOR EACH ROW
    WHEN (NEW.counted = OLD.counted) EXECUTE FUNCTION chat_unread_changes();

-- step 2: all conversations by their latest activity

CREATE INDEX chat_conversation_active ON chat_conversation (last_hour);

-- step 3: the archive of messages

-- Parts of conversations that are in the document store. While restored_at is set, their messages are in chat_entry, too.
CREATE TABLE chat_archive (
    conversation_id bigint NOT NULL,
    first bigint NOT NULL, -- seq of the first and of the last message
    last bigint NOT NULL,
    text_bytes bigint NOT NULL, -- of all messages
    name text NOT NULL, -- in the document store
    bytes bigint NOT NULL,
    restored_at timestamptz,
    PRIMARY KEY (conversation_id, first)
);
CREATE INDEX chat_archive_restored ON chat_archive (restored_at) WHERE restored_at IS NOT NULL;

-- One row: how far the archive is in the order of last_hour and id, and the latest transaction whose messages it took.
CREATE TABLE chat_archive_state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    hour timestamp NOT NULL DEFAULT 'epoch',
    id bigint NOT NULL DEFAULT 0,
    xid xid8
);
INSERT INTO chat_archive_state DEFAULT VALUES;

-- The archive reads the conversations in this order.
DROP INDEX chat_conversation_active;
CREATE INDEX chat_conversation_active ON chat_conversation (last_hour, id);

-- step 4: the check of the archive

ALTER TABLE chat_archive ADD COLUMN archived_at timestamptz NOT NULL DEFAULT now(),
    ALTER COLUMN name TYPE text COLLATE "C";
CREATE INDEX chat_archive_name ON chat_archive (name);

-- step 5: closed conversations

-- The number of messages at the closing; null if open. A post raises `entries`, and so reopens the conversation.
ALTER TABLE chat_conversation ADD COLUMN closed_entries bigint;

-- step 6: attachments

-- The JSON of the attachments, as the API returns it; null: none. Their files are documents of the document store.
ALTER TABLE chat_entry ADD COLUMN attachments text;
