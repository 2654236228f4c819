-- For pgbench -M prepared: the statement of POST /api/chat/conversations/:id/messages (modules/chat/post.c), in a
-- separate transaction. The author is participant1 (see seed.sql). pgbench has no text variables, so the e-mail and
-- the uuid are assembled in the statement; the host sends them as parameters.
\set id random(1, 100000)
\set n :id % 10000 + 1
\set uuid random(1, 281474976710655)
BEGIN;
WITH c AS (UPDATE chat_conversation o SET entries = entries + 1, last_entry_uuid = ('00000000-0000-7000-8000-' || lpad(to_hex(:uuid::bigint), 12, '0'))::uuid, last_at = greatest(last_at + interval '1 microsecond', clock_timestamp()), unread1 = unread1 + (participant1 <> 'u' || :n || '@bench.test')::int, unread2 = unread2 + (participant2 <> 'u' || :n || '@bench.test')::int, counted = counted + 1 WHERE id = :id::bigint RETURNING entries, last_at, organisation, device_project_name, participant1 = 'u' || :n || '@bench.test' AS by1, participant1, withheld1, participant2, withheld2), u AS (INSERT INTO chat_unread_change SELECT CASE WHEN by1 THEN participant2 ELSE participant1 END, coalesce(organisation, 0), CASE WHEN by1 THEN withheld2 ELSE withheld1 END, device_project_name, 1, last_at FROM c), e AS (INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at) SELECT :id::bigint, c.entries, ('00000000-0000-7000-8000-' || lpad(to_hex(:uuid::bigint), 12, '0'))::uuid, 'u' || :n || '@bench.test', 'The inverter reports 4,812 kWh for March; is that plausible for this site?', date_trunc('milliseconds', now()) FROM c) SELECT busbar_require(count(*) = 1, 404, 'Conversation not found') FROM c;
COMMIT;
