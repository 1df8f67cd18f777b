//! The functions that PostgreSQL has and Reprise lacks. The error of a call says that they are not supported.
//! Source: PostgreSQL 15, `pg_proc`, without the functions that types and indexes use themselves.

/// The names of the functions, with the possible numbers of arguments; `+` means at least this number.
const ABSENT: &str = "\
abbrev/1 aclcontains/2 aclexplode/1 aclinsert/2 aclremove/2 amvalidate/1 area/1 array_to_tsvector/1 \
bound_box/2 box/1,2 broadcast/1 center/1 circle/1,2 convert/3 current_query/0 cursor_to_xml/5 \
cursor_to_xmlschema/4 database_to_xml/3 database_to_xml_and_xmlschema/3 database_to_xmlschema/3 \
datemultirange/0,0+,1 daterange/2,3 daterange_canonical/1 daterange_subdiff/2 \
datetimetz_pl/2 diagonal/1 diameter/1 elem_contained_by_multirange/2 elem_contained_by_range/2 \
family/1 generate_subscripts/3 get_current_ts_config/0 has_foreign_data_wrapper_privilege/2,3 \
has_parameter_privilege/2,3 has_server_privilege/2,3 height/1 host/1 hostmask/1 inet_merge/2 \
inet_same_family/2 is_normalized/1,2 isclosed/1 isempty/1 ishorizontal/1,2 isopen/1 isparallel/2 \
isperp/2 isvertical/1,2 json_populate_record/2,3 json_populate_recordset/2,3 json_to_tsvector/2,3 \
jsonb_path_exists/2,3,4 jsonb_path_exists_tz/2,3,4 jsonb_path_match/2,3,4 jsonb_path_match_tz/2,3,4 \
jsonb_path_query/2,3,4 jsonb_path_query_array/2,3,4 jsonb_path_query_array_tz/2,3,4 \
jsonb_path_query_first/2,3,4 jsonb_path_query_first_tz/2,3,4 jsonb_path_query_tz/2,3,4 \
jsonb_populate_record/2 jsonb_populate_recordset/2 jsonb_to_tsvector/2,3 length/2 line/2 lower_inc/1 \
lower_inf/1 lseg/1,2 make_interval/0,1,2,3,4,5,6 makeaclitem/4 masklen/1 \
multirange/1 mxid_age/1 netmask/1 network/1 normalize/1,2 npoints/1 nummultirange/0,0+,1 numnode/1 \
numrange/2,3 numrange_subdiff/2 on_sb/2 on_sl/2 path/1 pg_available_extension_versions/0 \
pg_available_extensions/0 pg_blocking_pids/1 pg_collation_actual_version/1 pg_collation_for/1 \
pg_column_compression/1 pg_column_size/1 pg_config/0 \
pg_control_checkpoint/0 pg_control_init/0 pg_control_recovery/0 pg_control_system/0 \
pg_copy_logical_replication_slot/2,3,4 pg_copy_physical_replication_slot/2,3 \
pg_create_logical_replication_slot/2,3,4 pg_create_physical_replication_slot/1,2,3 \
pg_create_restore_point/1 pg_current_logfile/0,1 pg_current_snapshot/0 pg_current_wal_flush_lsn/0 \
pg_current_wal_insert_lsn/0 pg_current_wal_lsn/0 pg_current_xact_id_if_assigned/0 pg_cursor/0 \
pg_database_collation_actual_version/1 pg_describe_object/3 pg_drop_replication_slot/1 \
pg_export_snapshot/0 pg_extension_config_dump/2 pg_extension_update_paths/1 pg_filenode_relation/2 \
pg_get_backend_memory_contexts/0 pg_get_catalog_foreign_keys/0 pg_get_multixact_members/1 \
pg_get_object_address/3 pg_get_publication_tables/1 pg_get_replica_identity_index/1 \
pg_get_replication_slots/0 pg_get_shmem_allocations/0 pg_get_statisticsobjdef_expressions/1 \
pg_import_system_collations/1 pg_index_column_has_property/3 pg_index_has_property/2 \
pg_indexam_has_property/2 pg_indexam_progress_phasename/2 pg_is_wal_replay_paused/0 \
pg_jit_available/0 pg_last_committed_xact/0 pg_last_wal_receive_lsn/0 pg_last_wal_replay_lsn/0 \
pg_last_xact_replay_timestamp/0 pg_listening_channels/0 pg_lock_status/0 \
pg_log_backend_memory_contexts/1 pg_lsn/1 pg_notification_queue_usage/0 \
pg_partition_root/1 pg_prepared_statement/0 pg_prepared_xact/0 pg_promote/0,1,2 \
pg_read_binary_file/1,3,4 pg_read_file/1,3,4 pg_read_file_old/3 pg_relation_filenode/1 \
pg_relation_filepath/1 pg_reload_conf/0 pg_rotate_logfile/0 \
pg_rotate_logfile_old/0 pg_safe_snapshot_blocking_pids/1 pg_sequence_last_value/1 \
pg_sequence_parameters/1 pg_settings_get_flags/1 pg_sleep/1 pg_sleep_for/1 pg_sleep_until/1 \
pg_stat_clear_snapshot/0 pg_stat_file/1,2 pg_stat_force_next_flush/0 pg_stat_have_stats/3 \
pg_stat_reset/0 pg_stat_reset_replication_slot/1 pg_stat_reset_shared/1 \
pg_stat_reset_single_function_counters/1 pg_stat_reset_single_table_counters/1 pg_stat_reset_slru/1 \
pg_stat_reset_subscription_stats/1 pg_switch_wal/0 pg_tablespace_databases/1 pg_timezone_abbrevs/0 \
pg_timezone_names/0 pg_trigger_depth/0 pg_visible_in_snapshot/2 pg_xact_commit_timestamp/1 \
pg_xact_commit_timestamp_origin/1 pg_xact_status/1 phraseto_tsquery/1,2 plainto_tsquery/1,2 \
point/1,2 polygon/1,2 query_to_xml/4 query_to_xml_and_xmlschema/4 query_to_xmlschema/4 querytree/1 \
radius/1 range_agg/1 range_intersect_agg/1 range_merge/1,2 schema_to_xml/4 \
schema_to_xml_and_xmlschema/4 schema_to_xmlschema/4 set_masklen/2 setseed/1 setweight/2,3 \
similar_escape/2 slope/2 strip/1 table_to_xml/4 table_to_xml_and_xmlschema/4 table_to_xmlschema/4 \
timetzdate_pl/2 to_ascii/1,2 to_regcollation/1 to_regoper/1 to_regoperator/1 \
to_tsquery/1,2 to_tsvector/1,2 ts_debug/1,2 ts_delete/2 ts_filter/2 ts_headline/2,3,4 ts_lexize/2 \
ts_parse/2 ts_rank/2,3,4 ts_rank_cd/2,3,4 ts_rewrite/2,3 ts_stat/1,2 ts_token_type/1 \
tsmultirange/0,0+,1 tsrange/2,3 tsrange_subdiff/2 tstzmultirange/0,0+,1 tstzrange/2,3 \
tstzrange_subdiff/2 txid_current_if_assigned/0 txid_current_snapshot/0 txid_snapshot_xip/1 \
txid_snapshot_xmax/1 txid_snapshot_xmin/1 txid_status/1 txid_visible_in_snapshot/2 upper_inc/1 \
upper_inf/1 websearch_to_tsquery/1,2 width/1 xmlagg/1 xmlcomment/1 xpath/2,3 xpath_exists/2,3 \
";

/// Returns whether PostgreSQL has a function with this name and number of arguments that Reprise lacks.
pub(crate) fn is_absent(name: &str, arguments: usize) -> bool {
    let counts = ABSENT.split_whitespace().filter_map(|entry| entry.split_once('/'));
    let mut counts = counts.filter(|(known, _)| *known == name).flat_map(|(_, counts)| counts.split(','));
    counts.any(|count| match count.strip_suffix('+') {
        Some(least) => least.parse().is_ok_and(|least: usize| arguments >= least),
        None => count.parse() == Ok(arguments),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procedure::built_ins_named;

    #[test]
    fn no_function_is_absent_that_is_there() {
        let mut known = Vec::new();
        for entry in ABSENT.split_whitespace() {
            let (name, counts) = entry.split_once('/').unwrap();
            for count in counts.split(',').map(|count| count.trim_end_matches('+').parse().unwrap()) {
                assert!(is_absent(name, count));
                let is_there = built_ins_named(name).iter().any(|built_in| built_in.takes(count));
                known.extend(is_there.then(|| format!("{name} {count}")));
            }
        }
        assert_eq!(known, Vec::<String>::new());
        assert!(!is_absent("abs", 1));
    }
}
