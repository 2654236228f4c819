-- Makes a million hourly readings of 1,000 devices in a daily group, as if they had just been posted.
\set ON_ERROR_STOP on
TRUNCATE reading, reading_device, certificate_group, certificate_member, certificate_former,
    certificate_share, certificate_due, certificate_look, certificate_changed, certificate_history, certificate_account,
    certificate, certificate_entry, certificate_day;
INSERT INTO reading
SELECT d, 'D', '2016-01-01T00:00Z'::timestamptz + h * interval '1 hour',
       '2016-01-01T01:00Z'::timestamptz + h * interval '1 hour', 137 + (h * d) % 101, now()
  FROM generate_series(1, 1000) d, generate_series(0, 999) h;
INSERT INTO reading_device
SELECT device, type, max(start_at), max(end_at), 10, now(), '-infinity', min(end_at), max(end_at)
  FROM reading GROUP BY device, type;
INSERT INTO certificate_group VALUES (1, 1, 'bench', 'daily', '2016-01-01T00:00Z', NULL, 0, now());
INSERT INTO certificate_member SELECT d, 1 FROM generate_series(1, 1000) d;
VACUUM (ANALYZE) reading, reading_device, certificate_member;
CHECKPOINT;
