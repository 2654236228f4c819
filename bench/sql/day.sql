-- Makes a day of hourly History readings of 20,000 devices, d1 to d20000, as if they had just been posted.
\set ON_ERROR_STOP on
TRUNCATE reading, reading_device, certificate_group, certificate_member, certificate_former,
    certificate_share, certificate_due, certificate_look, certificate_changed, certificate_history, certificate_account,
    certificate, certificate_entry, certificate_day;
INSERT INTO device (id, uuid, organisation, external_id, commissioning_date, capacity, attributes,
                    created_at, updated_at)
SELECT n, gen_random_uuid(), 1, 'd' || n, '2010-01-01', 1000, '{}', now(), now()
  FROM generate_series(1, 20000) n ON CONFLICT DO NOTHING;
INSERT INTO reading
SELECT d, 'H', '2016-01-01T00:00Z'::timestamptz + h * interval '1 hour',
       '2016-01-01T01:00Z'::timestamptz + h * interval '1 hour', 2137 + (h * d) % 101, now()
  FROM generate_series(1, 20000) d, generate_series(0, 23) h;
INSERT INTO reading_device
SELECT device, type, max(start_at), max(end_at), 10, now(), '-infinity', min(end_at), max(end_at)
  FROM reading GROUP BY device, type;
VACUUM (ANALYZE) device, reading, reading_device;
CHECKPOINT;
