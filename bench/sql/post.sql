-- pgbench -M prepared: what POST /api/chat/conversations/:id/messages sends in its unit
-- (modules/chat/post.c), in a transaction of its own. The author is participant1 (see seed.sql).
-- pgbench has no text variables, so e-mail and uuid are put together where the host sends them.
\set id random(1, 100000)
\set n :id % 10000 + 1
\set uuid random(1, 281474976710655)
BEGIN;
WITH c AS (UPDATE chat_conversation SET entries = entries + 1, last_entry_uuid = ('00000000-0000-7000-8000-' || lpad(to_hex(:uuid::bigint), 12, '0'))::uuid, last_at = greatest(last_at + interval '1 microsecond', clock_timestamp()), unread1 = unread1 + (participant1 <> 'u' || :n || '@bench.test')::int, unread2 = unread2 + (participant2 <> 'u' || :n || '@bench.test')::int, counted = counted + 1 WHERE id = :id::bigint RETURNING *), u AS (INSERT INTO chat_unread_change SELECT v.email, coalesce(c.organisation, 0), v.withheld, c.device_project_name, 1, c.last_at FROM c, LATERAL (VALUES (c.participant1, c.withheld1), (c.participant2, c.withheld2)) v (email, withheld) WHERE v.email <> 'u' || :n || '@bench.test'), e AS (INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at) SELECT :id::bigint, c.entries, ('00000000-0000-7000-8000-' || lpad(to_hex(:uuid::bigint), 12, '0'))::uuid, 'u' || :n || '@bench.test', 'The inverter reports 4,812 kWh for March; is that plausible for this site?', date_trunc('milliseconds', now()) FROM c) SELECT busbar_require(count(*) = 1, 404, 'Conversation not found') FROM c;
COMMIT;
