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

-- step 3: what an account does not see, and how much is unread

-- Whether the account of a participant's e-mail sees the conversation because of that e-mail: not if
-- the e-mail was no approved account's when the conversation began, until the platform shares it.
-- Accounts that are there keep what they see.
ALTER TABLE chat_directory ADD COLUMN withheld1 boolean NOT NULL DEFAULT false,
    ADD COLUMN withheld2 boolean NOT NULL DEFAULT false;
ALTER TABLE chat_conversation ADD COLUMN withheld1 boolean NOT NULL DEFAULT false,
    ADD COLUMN withheld2 boolean NOT NULL DEFAULT false;

DO $$
BEGIN
    IF to_regclass('auth_account') IS NOT NULL THEN
        UPDATE chat_directory SET
            withheld1 = NOT EXISTS (SELECT FROM auth_account a
                                    WHERE a.email = participant1 AND a.status <> 'Pending'),
            withheld2 = NOT EXISTS (SELECT FROM auth_account a
                                    WHERE a.email = participant2 AND a.status <> 'Pending');
        UPDATE chat_conversation c SET withheld1 = d.withheld1, withheld2 = d.withheld2
            FROM chat_directory d WHERE d.id = c.id AND (d.withheld1 OR d.withheld2);
    END IF;
END
$$;

-- Whose conversations a platform asks for: those of an e-mail in its organisations.
CREATE INDEX chat_directory_organisation1 ON chat_directory (organisation, participant1)
    WHERE organisation IS NOT NULL;
CREATE INDEX chat_directory_organisation2 ON chat_directory (organisation, participant2)
    WHERE organisation IS NOT NULL;

-- Totals of what is unread for an e-mail, so that a count costs the same however many conversations
-- there are: in an organisation (0: none), and whether it is withheld. One post after the other would
-- wait for such a row, so a change is a row of its own, which the job `unread` adds up later;
-- whoever counts adds both.
CREATE TABLE chat_unread (
    email text NOT NULL,
    organisation bigint NOT NULL,
    withheld boolean NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (email, organisation, withheld)
) WITH (fillfactor = 70);

-- The same for each name, with the time of its latest message.
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
-- What is in it changes faster than statistics: it is always looked up by e-mail.
ALTER TABLE chat_unread_change ALTER COLUMN email SET (n_distinct = -0.5);
CREATE INDEX chat_unread_change_email ON chat_unread_change (email);

-- Triggers, so that whatever changes a conversation is counted.
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

CREATE FUNCTION chat_unread_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.unread1 <> OLD.unread1 THEN
        INSERT INTO chat_unread_change VALUES (
            NEW.participant1, coalesce(NEW.organisation, 0), NEW.withheld1,
            NEW.device_project_name, NEW.unread1 - OLD.unread1, NEW.last_at);
    END IF;
    IF NEW.unread2 <> OLD.unread2 THEN
        INSERT INTO chat_unread_change VALUES (
            NEW.participant2, coalesce(NEW.organisation, 0), NEW.withheld2,
            NEW.device_project_name, NEW.unread2 - OLD.unread2, NEW.last_at);
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER chat_unread_begins AFTER INSERT ON chat_conversation FOR EACH ROW
    WHEN (NEW.unread1 > 0 OR NEW.unread2 > 0) EXECUTE FUNCTION chat_unread_begins();
CREATE TRIGGER chat_unread_ends AFTER DELETE ON chat_conversation FOR EACH ROW
    WHEN (OLD.unread1 > 0 OR OLD.unread2 > 0) EXECUTE FUNCTION chat_unread_ends();
CREATE TRIGGER chat_unread_changes AFTER UPDATE ON chat_conversation FOR EACH ROW
    WHEN ((NEW.unread1 <> OLD.unread1 OR NEW.unread2 <> OLD.unread2)
          AND NEW.withheld1 = OLD.withheld1 AND NEW.withheld2 = OLD.withheld2)
    EXECUTE FUNCTION chat_unread_changes();
-- Shared: it moves from what is withheld to what is not.
CREATE TRIGGER chat_unread_leaves AFTER UPDATE ON chat_conversation FOR EACH ROW
    WHEN (NEW.withheld1 <> OLD.withheld1 OR NEW.withheld2 <> OLD.withheld2)
    EXECUTE FUNCTION chat_unread_ends();
CREATE TRIGGER chat_unread_returns AFTER UPDATE ON chat_conversation FOR EACH ROW
    WHEN (NEW.withheld1 <> OLD.withheld1 OR NEW.withheld2 <> OLD.withheld2)
    EXECUTE FUNCTION chat_unread_begins();

INSERT INTO chat_unread
    SELECT v.email, coalesce(c.organisation, 0), v.withheld, sum(v.unread)
    FROM chat_conversation c,
         LATERAL (VALUES (c.participant1, c.withheld1, c.unread1),
                         (c.participant2, c.withheld2, c.unread2)) v (email, withheld, unread)
    WHERE v.unread > 0 GROUP BY 1, 2, 3;
INSERT INTO chat_unread_name
    SELECT v.email, coalesce(c.organisation, 0), v.withheld, c.device_project_name, sum(v.unread),
           max(c.last_at)
    FROM chat_conversation c,
         LATERAL (VALUES (c.participant1, c.withheld1, c.unread1),
                         (c.participant2, c.withheld2, c.unread2)) v (email, withheld, unread)
    WHERE v.unread > 0 AND c.device_project_name IS NOT NULL GROUP BY 1, 2, 3, 4;

-- The totals took their place; without them the first unread message and the read mark are heap-only
-- updates, too. Their indexes go with them.
ALTER TABLE chat_conversation DROP COLUMN has_unread1, DROP COLUMN has_unread2;

-- step 4: e-mails that Unicode folds into one
-- They are folded before they are looked up. A conversation whose participants would be one keeps
-- theirs. Few e-mails have characters beyond ASCII; the others are as they were.
UPDATE chat_directory
    SET participant1 = busbar_fold(participant1), participant2 = busbar_fold(participant2)
    WHERE (participant1 <> busbar_fold(participant1) OR participant2 <> busbar_fold(participant2))
    AND busbar_fold(participant1) <> busbar_fold(participant2);
WITH folded AS (
    UPDATE chat_conversation
    SET participant1 = busbar_fold(participant1), participant2 = busbar_fold(participant2)
    WHERE (participant1 <> busbar_fold(participant1) OR participant2 <> busbar_fold(participant2))
    AND busbar_fold(participant1) <> busbar_fold(participant2) RETURNING id)
UPDATE chat_entry SET username = busbar_fold(username)
    WHERE conversation_id IN (SELECT id FROM folded) AND username <> busbar_fold(username);

UPDATE chat_unread_change SET email = busbar_fold(email) WHERE email <> busbar_fold(email);
WITH other AS (DELETE FROM chat_unread WHERE email <> busbar_fold(email) RETURNING *)
INSERT INTO chat_unread AS u
    SELECT busbar_fold(email), organisation, withheld, sum(messages) FROM other GROUP BY 1, 2, 3
    ON CONFLICT (email, organisation, withheld) DO UPDATE SET messages = u.messages + excluded.messages;
WITH other AS (DELETE FROM chat_unread_name WHERE email <> busbar_fold(email) RETURNING *)
INSERT INTO chat_unread_name AS u
    SELECT busbar_fold(email), organisation, withheld, name, sum(messages), max(last_at)
    FROM other GROUP BY 1, 2, 3, 4
    ON CONFLICT (email, organisation, withheld, name) DO UPDATE
    SET messages = u.messages + excluded.messages, last_at = greatest(u.last_at, excluded.last_at);

-- step 5: a post itself inserts what it changes of what is unread
-- A statement that has done so counts up `counted`; of all others the trigger inserts it. It is one
-- trigger, because PostgreSQL reads the condition of each with every statement.
ALTER TABLE chat_conversation ADD COLUMN counted bigint NOT NULL DEFAULT 0;
DROP TRIGGER chat_unread_changes ON chat_conversation;
DROP TRIGGER chat_unread_leaves ON chat_conversation;
DROP TRIGGER chat_unread_returns ON chat_conversation;

CREATE OR REPLACE FUNCTION chat_unread_changes() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- step 6: large messages are compressed by lz4 where PostgreSQL has it, in a tenth of the time
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

-- step 7: e-mails whose domains are compared as A-labels
-- As in step 4: a conversation whose participants would be one keeps theirs.
UPDATE chat_directory
    SET participant1 = busbar_email(participant1), participant2 = busbar_email(participant2)
    WHERE (participant1 <> busbar_email(participant1) OR participant2 <> busbar_email(participant2))
    AND busbar_email(participant1) <> busbar_email(participant2);
WITH renamed AS (
    UPDATE chat_conversation
    SET participant1 = busbar_email(participant1), participant2 = busbar_email(participant2),
        counted = counted + 1
    WHERE (participant1 <> busbar_email(participant1) OR participant2 <> busbar_email(participant2))
    AND busbar_email(participant1) <> busbar_email(participant2) RETURNING id)
UPDATE chat_entry SET username = busbar_email(username)
    WHERE conversation_id IN (SELECT id FROM renamed) AND username <> busbar_email(username);

UPDATE chat_unread_change SET email = busbar_email(email) WHERE email <> busbar_email(email);
WITH other AS (DELETE FROM chat_unread WHERE email <> busbar_email(email) RETURNING *)
INSERT INTO chat_unread AS u
    SELECT busbar_email(email), organisation, withheld, sum(messages) FROM other GROUP BY 1, 2, 3
    ON CONFLICT (email, organisation, withheld) DO UPDATE SET messages = u.messages + excluded.messages;
WITH other AS (DELETE FROM chat_unread_name WHERE email <> busbar_email(email) RETURNING *)
INSERT INTO chat_unread_name AS u
    SELECT busbar_email(email), organisation, withheld, name, sum(messages), max(last_at)
    FROM other GROUP BY 1, 2, 3, 4
    ON CONFLICT (email, organisation, withheld, name) DO UPDATE
    SET messages = u.messages + excluded.messages, last_at = greatest(u.last_at, excluded.last_at);
