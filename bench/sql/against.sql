-- The data that the attackers of `bench/run against` request: each has a conversation of 64 MiB (which it started),
-- 20,000 unread conversations, and 1,000 devices of 30 kB.
\set ON_ERROR_STOP on
CREATE TEMP TABLE attacker AS
SELECT c.id, c.participant1 AS email, c.organisation
  FROM chat_conversation c WHERE c.participant1 LIKE 'attacker%' AND c.participant2 LIKE 'chain%';
INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)
SELECT a.id, g + 1, gen_random_uuid(), a.email, rpad('entry ' || g || ' ', 1048576, md5(g::text)), now()
  FROM attacker a, generate_series(1, 64) g;
UPDATE chat_conversation c SET entries = 65 FROM attacker a WHERE c.id = a.id;
INSERT INTO chat_conversation (id, organisation, entries, last_at, unread1, unread2, head_uuid,
                               last_entry_uuid, participant1, participant2, device_project_name)
SELECT nextval('chat_conversation_id'), a.organisation, 1, now(), 1, 0, gen_random_uuid(),
       gen_random_uuid(), a.email, 'peer' || g || '@bench.test', 'Device ' || g
  FROM attacker a, generate_series(1, 20000) g;
INSERT INTO device (id, uuid, organisation, external_id, attributes, created_at, updated_at)
SELECT nextval('device_id'), gen_random_uuid(), a.organisation, 'd' || g,
       jsonb_build_object('note', repeat('sixteen letters ', 1875)), now(), now()
  FROM attacker a, generate_series(1, 1000) g;
-- also the webhooks of the attackers: without statistics, PostgreSQL reads all webhooks for each message
VACUUM (ANALYZE);
CHECKPOINT;
