-- Stores :readings readings of one minute for d1 to d1000, earlier than the readings that the benchmark posts.
\set ON_ERROR_STOP on
TRUNCATE reading, reading_device;
INSERT INTO reading
SELECT d, 'D', '2015-01-01T00:00Z'::timestamptz + m * interval '1 minute',
       '2015-01-01T00:01Z'::timestamptz + m * interval '1 minute', 10, now()
  FROM generate_series(1, 1000) d, generate_series(0, :readings / 1000 - 1) m;
INSERT INTO reading_device
SELECT device, type, max(start_at), max(end_at), 10, now(), '-infinity'
  FROM reading GROUP BY device, type;
VACUUM (ANALYZE) reading, reading_device;
CHECKPOINT;
