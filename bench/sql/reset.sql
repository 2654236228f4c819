-- Puts the counters back to the seed's before a run: posts make conversations unread, after which a
-- count has more to read and a post fewer index entries to move. The messages stay.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
-- Posts that the last load left under way end first: one that ended after the SELECT would leave its
-- message, and the next one of its conversation would get the same place in the chain.
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
