-- Fills the chat tables for the bench: psql -v entries=1000000 -f seed.sql
-- 10,000 e-mails u1@bench.test … u10000@bench.test and 100,000 conversations, ids 1 to 100,000.
-- Conversation i is between u<i % 10000 + 1> and u<(i * 7 + 5000) % 10000 + 1> or its successor.
-- `entries` messages are spread evenly; with fewer than 100,000 the later conversations have none. Counters do not
-- depend on the number of messages, so a count always does the same work.
-- A quarter of the conversations is unread for each side: an e-mail has about 5 of them.
\set ON_ERROR_STOP on
\if :{?entries}
\else
    \set entries 100000
\endif

TRUNCATE chat_conversation, chat_directory, chat_entry, chat_unread, chat_unread_name,
    chat_unread_change;

INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1, unread2,
                               head_uuid, last_entry_uuid, participant1, participant2,
                               device_project_name)
SELECT i, NULL, n, at,
       CASE WHEN (i + i / 10000) % 4 = 0 THEN i % 9 + 1 ELSE 0 END,
       CASE WHEN (i + i / 10000) % 4 = 1 THEN i % 7 + 1 ELSE 0 END,
       md5(i || ':1')::uuid, md5(i || ':' || greatest(n, 1))::uuid,
       'u' || p1 || '@bench.test',
       'u' || CASE WHEN p1 = p2 THEN p2 % 10000 + 1 ELSE p2 END || '@bench.test',
       'Device ' || i
  FROM generate_series(1, 100000) i,
       LATERAL (SELECT i % 10000 + 1 AS p1, (i::bigint * 7 + 5000) % 10000 + 1 AS p2,
                       :entries / 100000 + CASE WHEN i <= :entries % 100000 THEN 1 ELSE 0 END AS n,
                       now() - make_interval(secs => 100000 - i) AS at) v;

INSERT INTO chat_directory (id, organisation, created_at, head_uuid, participant1, participant2,
                            device_project_name)
SELECT id, organisation, last_at, head_uuid, participant1, participant2, device_project_name
  FROM chat_conversation;

INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)
SELECT c.id, s, md5(c.id || ':' || s)::uuid,
       CASE WHEN s % 2 = 0 THEN c.participant1 ELSE c.participant2 END,
       'Message ' || s || ' of conversation ' || c.id || ': the inverter reports 4,812 kWh for March.',
       c.last_at + make_interval(secs => s)
  FROM chat_conversation c, LATERAL generate_series(1, c.entries) s
 ORDER BY s, c.id;

SELECT setval('chat_conversation_id', 100000);
VACUUM (ANALYZE) chat_conversation;
VACUUM (ANALYZE) chat_directory;
VACUUM (ANALYZE) chat_entry;
CHECKPOINT;
