-- For pgbench -M prepared: the statement of GET /api/chat/unread-count/:email (modules/chat/unread.c). pgbench has
-- no text variables, so the e-mail is assembled in the statement; the host sends it as $1.
\set n random(1, 10000)
SELECT greatest(sum(messages), 0)::bigint FROM (SELECT messages FROM chat_unread WHERE email = 'u' || :n || '@bench.test' AND NOT withheld UNION ALL SELECT messages FROM chat_unread_change WHERE email = 'u' || :n || '@bench.test' AND NOT withheld) u;
