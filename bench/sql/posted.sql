-- Fails unless all posts so far, from every program, have left chains without a gap that end at the message recorded in
-- the conversation, and unread totals that equal the sums over the conversations.
\set ON_ERROR_STOP on
DO $$
BEGIN
    IF EXISTS (SELECT FROM chat_conversation c
               LEFT JOIN LATERAL (SELECT count(*), max(seq) FROM chat_entry
                                  WHERE conversation_id = c.id) n ON true
               LEFT JOIN chat_entry e ON e.conversation_id = c.id AND e.seq = c.entries
               WHERE n.count <> c.entries OR n.max <> c.entries OR e.uuid <> c.last_entry_uuid) THEN
        RAISE 'a chain of messages is broken';
    END IF;
    IF EXISTS (SELECT FROM (
                   SELECT v.email, v.withheld, v.unread FROM chat_conversation c,
                   LATERAL (VALUES (c.participant1, c.withheld1, c.unread1),
                                   (c.participant2, c.withheld2, c.unread2)) v (email, withheld, unread)
                   UNION ALL SELECT email, withheld, -messages FROM chat_unread
                   UNION ALL SELECT email, withheld, -messages FROM chat_unread_change) u
               GROUP BY email, withheld HAVING sum(unread) <> 0) THEN
        RAISE 'an unread count is not the sum of its conversations';
    END IF;
END
$$;
