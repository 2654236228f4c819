-- The data that `bench/run console` shows: a conversation of :messages messages, and :devices devices of one organization.
\set ON_ERROR_STOP on
INSERT INTO chat_entry (conversation_id, seq, uuid, username, chat_entry, created_at)
SELECT c.id, n, gen_random_uuid(), c.participant1,
       'Message ' || n || ' of a long conversation: the inverter reports 4,812 kWh for March.', now()
  FROM chat_conversation c, generate_series(2, :messages) n;
UPDATE chat_conversation c SET entries = :messages, last_at = now(), unread2 = 0,
       last_entry_uuid = (SELECT uuid FROM chat_entry e WHERE e.conversation_id = c.id AND seq = :messages);
INSERT INTO device (id, uuid, organisation, external_id, site_name, commissioning_date, capacity, attributes,
                    created_at, updated_at)
SELECT nextval('device_id'), gen_random_uuid(), o.id, 'd' || n, 'Rooftop ' || n, '2020-01-01', 10, '{}', now(), now()
  FROM auth_organisation o, generate_series(1, :devices) n WHERE o.name = 'Bench';
VACUUM (ANALYZE);
