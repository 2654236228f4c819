-- Replaces the yearly partitions of the last twelve months by monthly ones, which busbar makes from the year after the
-- installation on. bench/sql/growth.sql makes the older months; the last one is for the readings that are posted.
\set ON_ERROR_STOP on
SET TimeZone = 'UTC';
DO $$
DECLARE
    last date := date_trunc('month', now()) - interval '1 month';
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I, %I', to_char(now(), '"reading_"YYYY'),
                   to_char(now() - interval '1 year', '"reading_"YYYY'));
    EXECUTE format('CREATE TABLE %I PARTITION OF reading FOR VALUES FROM (%L) TO (%L)', to_char(last, '"reading_"YYYYMM'),
                   last, last + interval '1 month');
    PERFORM reading_partitions();
END
$$;
