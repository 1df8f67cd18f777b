//! Functions whose values the binder knows: of the session, of the catalog, of sequences, of random values.
//! Source: PostgreSQL 15's documentation, "System Information Functions and Operators".

use super::SequenceFunction::{CurrVal, LastVal, NextVal, SetVal};
use super::{BuiltIn, Form, Kind};
use crate::{Draw, LiveFunction};
use catalog::Datum;

const BOOL: Kind = Kind::BOOL;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const OID: Kind = Kind::Oid;
const RELATION: Kind = Kind::Relation;
const TEXT: Kind = Kind::TEXT;
const TIME: Kind = Kind::TIMESTAMPTZ;
const UUID: Kind = Kind::UUID;

const fn session(name: &'static str, arguments: &'static [Kind], result: Kind) -> BuiltIn {
    BuiltIn::new(name, arguments, result, Form::Session).taking_null()
}

const fn live(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    function: LiveFunction,
) -> BuiltIn {
    BuiltIn::new(name, arguments, result, Form::Live(function))
}

pub(super) static SESSION: &[BuiltIn] = &[
    session("acldefault", &[TEXT, OID], Kind::TEXTS),
    session("col_description", &[OID, INT4], TEXT),
    session("current_database", &[], TEXT),
    session("current_schema", &[], TEXT),
    session("current_schemas", &[BOOL], Kind::TEXTS),
    live("current_setting", &[TEXT], TEXT, LiveFunction::CurrentSetting),
    live("current_setting", &[TEXT, BOOL], TEXT, LiveFunction::CurrentSetting),
    session("current_user", &[], TEXT),
    BuiltIn::new("currval", &[RELATION], INT8, Form::Sequence(CurrVal)),
    BuiltIn::of("format_type", &[OID, INT4], TEXT, |call| match call.values {
        [Datum::Int(oid), modifier] => {
            let modifier = if let Datum::Int(modifier) = modifier { *modifier } else { -1 };
            call.made(format_type(*oid, modifier))
        }
        _ => Ok(Datum::Null),
    })
    .taking_null(),
    BuiltIn::new("gen_random_uuid", &[], UUID, Form::Draw(Draw::Uuid)),
    BuiltIn::new("gen_row_identity", &[], UUID, Form::Draw(Draw::RowIdentity)),
    session("getdatabaseencoding", &[], TEXT),
    session("has_any_column_privilege", &[TEXT, TEXT], BOOL),
    session("has_any_column_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_column_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_column_privilege", &[TEXT, TEXT, TEXT, TEXT], BOOL),
    session("has_database_privilege", &[TEXT, TEXT], BOOL),
    session("has_database_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_function_privilege", &[TEXT, TEXT], BOOL),
    session("has_function_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_language_privilege", &[TEXT, TEXT], BOOL),
    session("has_language_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_schema_privilege", &[TEXT, TEXT], BOOL),
    session("has_schema_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_sequence_privilege", &[TEXT, TEXT], BOOL),
    session("has_sequence_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_table_privilege", &[TEXT, TEXT], BOOL),
    session("has_table_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_tablespace_privilege", &[TEXT, TEXT], BOOL),
    session("has_tablespace_privilege", &[TEXT, TEXT, TEXT], BOOL),
    session("has_type_privilege", &[TEXT, TEXT], BOOL),
    session("has_type_privilege", &[TEXT, TEXT, TEXT], BOOL),
    live("inet_client_addr", &[], TEXT, LiveFunction::ClientAddress),
    live("inet_client_port", &[], INT4, LiveFunction::ClientPort),
    live("inet_server_addr", &[], TEXT, LiveFunction::ServerAddress),
    live("inet_server_port", &[], INT4, LiveFunction::ServerPort),
    BuiltIn::new("lastval", &[], INT8, Form::Sequence(LastVal)),
    BuiltIn::new("nextval", &[RELATION], INT8, Form::Sequence(NextVal)),
    session("obj_description", &[OID], TEXT),
    session("obj_description", &[OID, TEXT], TEXT),
    live("pg_backend_pid", &[], INT4, LiveFunction::BackendPid),
    live("pg_cancel_backend", &[INT4], BOOL, LiveFunction::CancelBackend),
    session("pg_char_to_encoding", &[TEXT], INT4),
    session("pg_client_encoding", &[], TEXT),
    session("pg_collation_is_visible", &[OID], BOOL),
    live("pg_conf_load_time", &[], TIME, LiveFunction::StartTime),
    session("pg_conversion_is_visible", &[OID], BOOL),
    live("pg_current_xact_id", &[], INT8, LiveFunction::CurrentTransaction),
    live("pg_database_size", &[OID], INT8, LiveFunction::DatabaseSize),
    live("pg_database_size", &[TEXT], INT8, LiveFunction::DatabaseSize),
    session("pg_encoding_max_length", &[INT4], INT4),
    session("pg_encoding_to_char", &[INT4], TEXT),
    session("pg_function_is_visible", &[OID], BOOL),
    session("pg_get_constraintdef", &[OID], TEXT),
    session("pg_get_constraintdef", &[OID, BOOL], TEXT),
    session("pg_get_expr", &[TEXT, OID], TEXT),
    session("pg_get_expr", &[TEXT, OID, BOOL], TEXT),
    session("pg_get_function_arg_default", &[OID, INT4], TEXT),
    session("pg_get_function_arguments", &[OID], TEXT),
    session("pg_get_function_identity_arguments", &[OID], TEXT),
    session("pg_get_function_result", &[OID], TEXT),
    session("pg_get_function_sqlbody", &[OID], TEXT),
    session("pg_get_functiondef", &[OID], TEXT),
    session("pg_get_indexdef", &[OID], TEXT),
    session("pg_get_indexdef", &[OID, INT4, BOOL], TEXT),
    session("pg_get_partition_constraintdef", &[OID], TEXT),
    session("pg_get_partkeydef", &[OID], TEXT),
    session("pg_get_ruledef", &[OID], TEXT),
    session("pg_get_ruledef", &[OID, BOOL], TEXT),
    session("pg_get_serial_sequence", &[TEXT, TEXT], TEXT),
    session("pg_get_statisticsobjdef", &[OID], TEXT),
    session("pg_get_statisticsobjdef_columns", &[OID], TEXT),
    session("pg_get_triggerdef", &[OID], TEXT),
    session("pg_get_triggerdef", &[OID, BOOL], TEXT),
    session("pg_get_userbyid", &[OID], TEXT),
    session("pg_get_viewdef", &[OID], TEXT),
    session("pg_get_viewdef", &[OID, BOOL], TEXT),
    session("pg_has_role", &[TEXT, TEXT], BOOL),
    session("pg_has_role", &[TEXT, TEXT, TEXT], BOOL),
    live("pg_indexes_size", &[RELATION], INT8, LiveFunction::IndexSize),
    session("pg_is_in_recovery", &[], BOOL),
    session("pg_is_other_temp_schema", &[OID], BOOL),
    session("pg_my_temp_schema", &[], OID),
    session("pg_opclass_is_visible", &[OID], BOOL),
    session("pg_operator_is_visible", &[OID], BOOL),
    session("pg_opfamily_is_visible", &[OID], BOOL),
    session("pg_partition_ancestors", &[RELATION], RELATION),
    live("pg_postmaster_start_time", &[], TIME, LiveFunction::StartTime),
    session("pg_relation_is_publishable", &[RELATION], BOOL),
    live("pg_relation_size", &[RELATION], INT8, LiveFunction::TableSize),
    live("pg_relation_size", &[RELATION, TEXT], INT8, LiveFunction::TableSize),
    session("pg_statistics_obj_is_visible", &[OID], BOOL),
    session("pg_table_is_visible", &[OID], BOOL),
    live("pg_table_size", &[RELATION], INT8, LiveFunction::TableSize),
    session("pg_tablespace_location", &[OID], TEXT),
    live("pg_tablespace_size", &[OID], INT8, LiveFunction::DatabaseSize),
    live("pg_tablespace_size", &[TEXT], INT8, LiveFunction::DatabaseSize),
    live("pg_terminate_backend", &[INT4], BOOL, LiveFunction::TerminateBackend),
    live("pg_terminate_backend", &[INT4, INT8], BOOL, LiveFunction::TerminateBackend),
    live("pg_total_relation_size", &[RELATION], INT8, LiveFunction::IndexSize),
    session("pg_ts_config_is_visible", &[OID], BOOL),
    session("pg_ts_dict_is_visible", &[OID], BOOL),
    session("pg_ts_parser_is_visible", &[OID], BOOL),
    session("pg_ts_template_is_visible", &[OID], BOOL),
    session("pg_type_is_visible", &[OID], BOOL),
    session("pg_typeof", &[Kind::Any], TEXT),
    session("row_security_active", &[RELATION], BOOL),
    session("session_user", &[], TEXT),
    live("set_config", &[TEXT, TEXT, BOOL], TEXT, LiveFunction::SetConfig).taking_null(),
    BuiltIn::new("setval", &[RELATION, INT8], INT8, Form::Sequence(SetVal)),
    BuiltIn::new("setval", &[RELATION, INT8, BOOL], INT8, Form::Sequence(SetVal)),
    session("shobj_description", &[OID, TEXT], TEXT),
    session("to_regclass", &[TEXT], TEXT),
    session("to_regnamespace", &[TEXT], TEXT),
    session("to_regproc", &[TEXT], TEXT),
    session("to_regprocedure", &[TEXT], TEXT),
    session("to_regrole", &[TEXT], TEXT),
    session("to_regtype", &[TEXT], TEXT),
    live("txid_current", &[], INT8, LiveFunction::CurrentTransaction),
    BuiltIn::new("uuid_generate_v4", &[], UUID, Form::Draw(Draw::Uuid)),
    session("version", &[], TEXT),
];

/// Returns the name of a type by its OID, with the length, precision or scale in its modifier.
fn format_type(oid: i64, modifier: i64) -> String {
    let limit = modifier - 4;
    let limited = |name: &str| if limit >= 0 { format!("{name}({limit})") } else { name.into() };
    let timestamp = |zone: &str| match modifier {
        0.. => format!("timestamp({modifier}) {zone} time zone"),
        _ => format!("timestamp {zone} time zone"),
    };
    let (name, is_array) = match oid {
        16 | 1000 => ("boolean".to_owned(), oid == 1000),
        17 | 1001 => ("bytea".into(), oid == 1001),
        20 | 1016 => ("bigint".into(), oid == 1016),
        21 | 1005 => ("smallint".into(), oid == 1005),
        23 | 1007 => ("integer".into(), oid == 1007),
        25 | 1009 => ("text".into(), oid == 1009),
        114 | 199 => ("json".into(), oid == 199),
        700 | 1021 => ("real".into(), oid == 1021),
        701 | 1022 => ("double precision".into(), oid == 1022),
        1042 | 1014 => (limited("character"), oid == 1014),
        1043 | 1015 => (limited("character varying"), oid == 1015),
        1082 | 1182 => ("date".into(), oid == 1182),
        1114 | 1115 => (timestamp("without"), oid == 1115),
        1184 | 1185 => (timestamp("with"), oid == 1185),
        1083 | 1183 => ("time without time zone".into(), oid == 1183),
        1186 | 1187 => ("interval".into(), oid == 1187),
        1700 | 1231 => match limit {
            0.. => (format!("numeric({},{})", limit >> 16, limit & 0xffff), oid == 1231),
            _ => ("numeric".into(), oid == 1231),
        },
        18 => ("\"char\"".into(), false),
        19 => ("name".into(), false),
        22 => ("int2vector".into(), false),
        24 => ("regproc".into(), false),
        26 => ("oid".into(), false),
        30 => ("oidvector".into(), false),
        705 => ("unknown".into(), false),
        2202 => ("regprocedure".into(), false),
        2205 => ("regclass".into(), false),
        2206 => ("regtype".into(), false),
        2249 => ("record".into(), false),
        2275 => ("cstring".into(), false),
        2276 => ("\"any\"".into(), false),
        2277 => ("anyarray".into(), false),
        2278 => ("void".into(), false),
        2279 => ("trigger".into(), false),
        2283 => ("anyelement".into(), false),
        3500 => ("anyenum".into(), false),
        4089 => ("regnamespace".into(), false),
        2950 | 2951 => ("uuid".into(), oid == 2951),
        3802 | 3807 => ("jsonb".into(), oid == 3807),
        _ => ("???".into(), false),
    };
    if is_array { name + "[]" } else { name }
}
