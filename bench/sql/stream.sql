-- Makes conversations 200001 and higher, of u1 and u2, u3 and u4…: psql -v pairs=1000
\set ON_ERROR_STOP on
INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1, unread2, head_uuid,
                               last_entry_uuid, participant1, participant2, device_project_name)
SELECT 200000 + i, NULL, 1, now(), 0, 0, md5('s' || i)::uuid, md5('s' || i)::uuid,
       'u' || 2 * i - 1 || '@bench.test', 'u' || 2 * i || '@bench.test', 'Streaming ' || i
  FROM generate_series(1, :pairs) i;
INSERT INTO chat_directory (id, organisation, created_at, head_uuid, participant1, participant2,
                            device_project_name)
SELECT id, organisation, last_at, head_uuid, participant1, participant2, device_project_name
  FROM chat_conversation WHERE id > 200000;
INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)
SELECT id, 1, head_uuid, participant1, 'The first one.', last_at
  FROM chat_conversation WHERE id > 200000;
VACUUM (ANALYZE) chat_conversation;
VACUUM (ANALYZE) chat_directory;
VACUUM (ANALYZE) chat_entry;
