-- The checks of `busbar doctor`. A line with the name of a check precedes its statement. The rows of the statement are
-- the findings: a state (notice, warning or error) and a text.

-- check rights
SELECT 'error', 'the role ' || current_user || ' cannot read and change ' || string_agg(relname, ', ' ORDER BY relname)
FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
         AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
HAVING count(*) > 0;

-- check writes
SELECT 'error', 'the server is a standby' WHERE pg_is_in_recovery()
UNION ALL SELECT 'error', 'transactions are read-only by default'
WHERE current_setting('default_transaction_read_only') = 'on'
UNION ALL SELECT 'error', count(*) || ' commits wait for a synchronous standby' FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND clock_timestamp() - state_change > '3 s'
HAVING count(*) > 0;

-- check durability
SELECT 'error', name || ' is off: a crash loses acknowledged writes' FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off';

-- check replication
WITH standby AS (SELECT * FROM pg_stat_replication WHERE application_name !~ '^pg_'),
     names AS (SELECT current_setting('synchronous_standby_names') <> '' AS given)
SELECT 'notice', 'standbys are not visible: run GRANT pg_monitor TO ' || quote_ident(current_user)
WHERE NOT pg_has_role('pg_monitor', 'USAGE')
UNION ALL SELECT 'notice', 'no standby: if this server is lost, so are all writes since the last backup or archived WAL'
FROM names WHERE NOT given AND NOT EXISTS (SELECT FROM standby)
UNION ALL SELECT 'error', 'synchronous_standby_names needs a standby, and none is connected'
FROM names WHERE given AND NOT EXISTS (SELECT FROM standby)
UNION ALL SELECT 'warning', 'synchronous_standby_names is empty: a failover can lose acknowledged writes'
FROM names WHERE NOT given AND EXISTS (SELECT FROM standby)
UNION ALL SELECT 'warning', 'standby ' || application_name || ' is behind by '
    || pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn))
FROM pg_stat_replication WHERE NOT pg_is_in_recovery()
AND (pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) > 67108864 OR replay_lag > '10 s')
UNION ALL SELECT 'warning', 'replication slot ' || slot_name || ' is inactive and keeps '
    || pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)) || ' of WAL'
FROM pg_replication_slots WHERE NOT active AND NOT pg_is_in_recovery();

-- check archive
SELECT 'notice', 'archive_mode is off: a restore can only go back to a full backup'
WHERE current_setting('archive_mode') = 'off'
UNION ALL SELECT 'error', 'archiving WAL has failed since ' || last_failed_time FROM pg_stat_archiver
WHERE current_setting('archive_mode') <> 'off' AND last_failed_time > coalesce(last_archived_time, '-infinity')
UNION ALL SELECT 'warning', 'no WAL was archived for a day' FROM pg_stat_archiver
WHERE current_setting('archive_mode') <> 'off' AND now() - coalesce(last_archived_time, stats_reset) > '1 day';

-- check partitions
-- Checks only partitions by time; a module that partitions by other keys checks them with its command.
SELECT CASE WHEN until < now() THEN 'error' ELSE 'warning' END, name || ' has partitions only until ' || until
FROM (SELECT p.partrelid::regclass::text AS name,
             max((regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz) AS until
      FROM pg_partitioned_table p
      JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
          AND a.atttypid = 'timestamptz'::regtype
      JOIN pg_inherits i ON i.inhparent = p.partrelid JOIN pg_class c ON c.oid = i.inhrelid
      GROUP BY 1) p
WHERE until < now() + interval '12 hours';

-- check vacuum
SELECT 'warning', 'the oldest row version is ' || age(datfrozenxid)
    || ' transactions old: autovacuum does not keep up' FROM pg_database
WHERE datname = current_database() AND age(datfrozenxid) > 1000000000;

-- check sessions
SELECT 'warning', count(*) || ' of ' || current_setting('max_connections') || ' connections are in use'
FROM pg_stat_activity WHERE backend_type = 'client backend'
HAVING count(*) > 0.9 * current_setting('max_connections')::integer
UNION ALL SELECT 'warning', 'session ' || pid || ' of ' || usename || ' has been idle in a transaction since '
    || xact_start
FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND now() - xact_start > '10 minutes'
UNION ALL SELECT 'warning', 'prepared transaction ' || gid || ' is open since ' || prepared
FROM pg_prepared_xacts WHERE now() - prepared > '10 minutes';
