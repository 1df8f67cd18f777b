//! The views of `pg_catalog` that are queries over other relations, and the views that are always empty.
//! Source: PostgreSQL 15's system views. A counter that Reprise lacks is NULL.

use super::{SystemRelation, catalogs, information_views};
use crate::schema::View;

/// The views without rows, because Reprise does not support their objects, with their columns (the letters
/// are those of `catalogs`).
const EMPTY: [(&str, &str); 17] = [
    (
        "pg_available_extension_versions",
        "name t, version t, installed b, superuser b, trusted b, relocatable b, schema t, \
         requires T, comment t",
    ),
    ("pg_available_extensions", "name t, default_version t, installed_version t, comment t"),
    (
        "pg_matviews",
        "schemaname t, matviewname t, matviewowner t, tablespace t, hasindexes b, ispopulated \
         b, definition t",
    ),
    (
        "pg_policies",
        "schemaname t, tablename t, policyname t, permissive t, roles T, cmd t, qual t, \
         with_check t",
    ),
    ("pg_prepared_xacts", "transaction i, gid t, prepared z, owner t, database t"),
    ("pg_publication_tables", "pubname t, schemaname t, tablename t, attnames T, rowfilter t"),
    (
        "pg_replication_slots",
        "slot_name t, plugin t, slot_type t, datoid i, database t, temporary b, active b, \
         active_pid i, xmin i, catalog_xmin i, restart_lsn t, confirmed_flush_lsn t, wal_status \
         t, safe_wal_size l, two_phase b",
    ),
    (
        "pg_seclabels",
        "objoid i, classoid i, objsubid i, objtype t, objnamespace i, objname t, provider t, \
         label t",
    ),
    (
        "pg_stat_database_conflicts",
        "datid i, datname t, confl_tablespace l, confl_lock l, confl_snapshot l, \
         confl_bufferpin l, confl_deadlock l",
    ),
    (
        "pg_stat_progress_copy",
        "pid i, datid i, datname t, relid i, command t, type t, bytes_processed l, bytes_total \
         l, tuples_processed l, tuples_excluded l",
    ),
    (
        "pg_stat_progress_vacuum",
        "pid i, datid i, datname t, relid i, phase t, heap_blks_total l, heap_blks_scanned l, \
         heap_blks_vacuumed l, index_vacuum_count l, max_dead_tuples l, num_dead_tuples l",
    ),
    (
        "pg_stat_replication",
        "pid i, usesysid i, usename t, application_name t, client_addr t, client_hostname t, \
         client_port i, backend_start z, backend_xmin i, state t, sent_lsn t, write_lsn t, \
         flush_lsn t, replay_lsn t, write_lag t, flush_lag t, replay_lag t, sync_priority i, \
         sync_state t, reply_time z",
    ),
    (
        "pg_stat_subscription",
        "subid i, subname t, pid i, relid i, received_lsn t, last_msg_send_time z, \
         last_msg_receipt_time z, latest_end_lsn t, latest_end_time z",
    ),
    ("pg_stat_user_functions", "funcid i, schemaname t, funcname t, calls l, total_time f, self_time f"),
    (
        "pg_stat_wal_receiver",
        "pid i, status t, receive_start_lsn t, receive_start_tli i, written_lsn t, flushed_lsn \
         t, received_tli i, last_msg_send_time z, last_msg_receipt_time z, latest_end_lsn t, \
         latest_end_time z, slot_name t, sender_host t, sender_port i, conninfo t",
    ),
    (
        "pg_stats",
        "schemaname t, tablename t, attname t, inherited b, null_frac f, avg_width i, \
         n_distinct f, most_common_vals t, most_common_freqs t, histogram_bounds t, correlation \
         f, most_common_elems t, most_common_elem_freqs t, elem_count_histogram t",
    ),
    ("pg_user_mappings", "umid i, srvid i, srvname t, umuser i, usename t, umoptions T"),
];

/// The views that are queries.
const QUERIES: [(&str, &str); 10] = [
    (
        "pg_group",
        "SELECT rolname AS groname, oid AS grosysid, ARRAY[]::int[] AS grolist FROM \
         pg_catalog.pg_authid WHERE NOT rolcanlogin",
    ),
    (
        "pg_rules",
        "SELECT n.nspname AS schemaname, c.relname AS tablename, r.rulename, pg_get_ruledef(r.oid) \
         AS definition FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = \
         r.ev_class JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE r.rulename <> \
         '_RETURN'",
    ),
    (
        "pg_sequences",
        "SELECT n.nspname AS schemaname, c.relname AS sequencename, pg_get_userbyid(c.relowner) AS \
         sequenceowner, s.seqtypid::regtype AS data_type, s.seqstart AS start_value, s.seqmin AS \
         min_value, s.seqmax AS max_value, s.seqincrement AS increment_by, s.seqcycle AS cycle, \
         s.seqcache AS cache_size, NULL::bigint AS last_value FROM pg_catalog.pg_sequence s JOIN \
         pg_catalog.pg_class c ON c.oid = s.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = \
         c.relnamespace",
    ),
    (
        "pg_stat_all_indexes",
        "SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname, i.relname \
         AS indexrelname, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_read, NULL::bigint AS \
         idx_tup_fetch FROM pg_catalog.pg_class c JOIN pg_catalog.pg_index x ON c.oid = x.indrelid \
         JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid \
         = c.relnamespace WHERE c.relkind = 'r'",
    ),
    (
        "pg_stat_all_tables",
        "SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, NULL::bigint AS seq_scan, \
         NULL::bigint AS seq_tup_read, NULL::bigint AS idx_scan, NULL::bigint AS idx_tup_fetch, \
         NULL::bigint AS n_tup_ins, NULL::bigint AS n_tup_upd, NULL::bigint AS n_tup_del, \
         NULL::bigint AS n_tup_hot_upd, t.rows AS n_live_tup, 0::bigint AS n_dead_tup, NULL::bigint \
         AS n_mod_since_analyze, NULL::bigint AS n_ins_since_vacuum, NULL::timestamptz AS \
         last_vacuum, NULL::timestamptz AS last_autovacuum, NULL::timestamptz AS last_analyze, \
         NULL::timestamptz AS last_autoanalyze, 0::bigint AS vacuum_count, 0::bigint AS \
         autovacuum_count, 0::bigint AS analyze_count, 0::bigint AS autoanalyze_count FROM \
         pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace LEFT JOIN \
         pg_catalog.reprise_tables t ON t.oid = c.oid WHERE c.relkind IN ('r', 'p')",
    ),
    (
        "pg_stat_database",
        "SELECT d.oid AS datid, d.datname, (SELECT count(*)::int FROM pg_catalog.pg_stat_activity) \
         AS numbackends, c.committed AS xact_commit, c.failed AS xact_rollback, 0::bigint AS \
         blks_read, 0::bigint AS blks_hit, NULL::bigint AS tup_returned, NULL::bigint AS \
         tup_fetched, NULL::bigint AS tup_inserted, NULL::bigint AS tup_updated, NULL::bigint AS \
         tup_deleted, c.conflicts, 0::bigint AS temp_files, 0::bigint AS temp_bytes, NULL::bigint \
         AS deadlocks, NULL::bigint AS checksum_failures, NULL::timestamptz AS \
         checksum_last_failure, 0::float8 AS blk_read_time, 0::float8 AS blk_write_time, \
         NULL::timestamptz AS stats_reset FROM pg_catalog.pg_database d, pg_catalog.reprise_counts \
         c",
    ),
    (
        "pg_stat_user_indexes",
        "SELECT * FROM pg_catalog.pg_stat_all_indexes WHERE schemaname NOT IN ('pg_catalog', \
         'information_schema')",
    ),
    (
        "pg_stat_user_tables",
        "SELECT * FROM pg_catalog.pg_stat_all_tables WHERE schemaname NOT IN ('pg_catalog', \
         'information_schema')",
    ),
    (
        "pg_statio_user_tables",
        "SELECT relid, schemaname, relname, 0::bigint AS heap_blks_read, 0::bigint AS \
         heap_blks_hit, 0::bigint AS idx_blks_read, 0::bigint AS idx_blks_hit, 0::bigint AS \
         toast_blks_read, 0::bigint AS toast_blks_hit, 0::bigint AS tidx_blks_read, 0::bigint AS \
         tidx_blks_hit FROM pg_catalog.pg_stat_user_tables",
    ),
    ("pg_timezone_names", "SELECT 'UTC' AS name, 'UTC' AS abbrev, '00:00:00' AS utc_offset, false AS is_dst"),
];

/// Returns a view without rows; `None` for any other name.
pub(super) fn empty(name: &str) -> Option<SystemRelation> {
    let (_, columns) = EMPTY.iter().find(|view| view.0 == name)?;
    let columns: Vec<_> = catalogs::columns_of(columns).map(|column| (column.name, column.ty)).collect();
    Some(SystemRelation::new(&columns, Vec::new()))
}

/// Returns a view that is a query; `None` for any other name.
pub(crate) fn system_view(name: &str) -> Option<View> {
    let plain = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let mut all = QUERIES.iter().chain(&information_views::QUERIES);
    let (_, query) = all.find(|own| own.0 == plain)?;
    let query = (*query).into();
    Some(View { name: name.into(), query, names: Vec::new(), invoker: None, check: None })
}
