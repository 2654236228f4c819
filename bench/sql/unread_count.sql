-- pgbench -M prepared: what GET /api/chat/unread-count/:email sends (modules/chat/unread.c).
-- pgbench has no text variables, so the e-mail is put together where the host sends it as $1.
\set n random(1, 10000)
SELECT (SELECT coalesce(sum(unread1), 0) FROM chat_conversation WHERE participant1 = 'u' || :n || '@bench.test' AND has_unread1) + (SELECT coalesce(sum(unread2), 0) FROM chat_conversation WHERE participant2 = 'u' || :n || '@bench.test' AND has_unread2);
