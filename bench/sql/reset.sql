-- Resets the counters to the seed's before a run, because posts make conversations unread. With more unread
-- conversations, a count reads more rows, and a post moves fewer index entries. The messages stay.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
-- Waits for the posts of the last load that are still running. Otherwise a post could commit its message after the
-- SELECT, and the next message of its conversation would get the same place in the chain.
LOCK TABLE chat_conversation;
CREATE TEMP TABLE kept AS SELECT * FROM chat_conversation;
TRUNCATE chat_conversation, chat_unread, chat_unread_name, chat_unread_change;
INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1, unread2,
                               head_uuid, last_entry_uuid, participant1, participant2,
                               device_project_name)
SELECT i, organisation, entries, last_at,
       CASE WHEN (i + i / 10000) % 4 = 0 THEN i % 9 + 1 ELSE 0 END,
       CASE WHEN (i + i / 10000) % 4 = 1 THEN i % 7 + 1 ELSE 0 END,
       head_uuid, last_entry_uuid, participant1, participant2, device_project_name
  FROM (SELECT id AS i, * FROM kept) k
 ORDER BY i;
COMMIT;
VACUUM (ANALYZE) chat_conversation, chat_unread_change;
