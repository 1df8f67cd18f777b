//! The tables of PostgreSQL's `pg_catalog`, with their OIDs and columns.
//! Source: PostgreSQL 15's `pg_attribute`.
//!
//! A table for whose objects Reprise has no support is empty. A column that Reprise does not fill is NULL if
//! PostgreSQL allows NULL in it, otherwise 0, false or empty.

use super::{BOOL, Cell, INT, INTS, OID, OIDS, SMALL_INTS, SystemRelation, SystemRows, TEXT, TEXTS};
use crate::plan::ColumnOrigin;
use catalog::{ScalarType, Type};

/// A table: its name, its OID, and its columns in order, each with a letter for its type. A column with `?`
/// may be NULL.
type Catalog = (&'static str, i64, &'static str);

const CATALOGS: [Catalog; 64] = [
    (
        "pg_aggregate",
        2600,
        "aggfnoid i, aggkind c, aggnumdirectargs i, aggtransfn i, aggfinalfn i, aggcombinefn i, \
         aggserialfn i, aggdeserialfn i, aggmtransfn i, aggminvtransfn i, aggmfinalfn i, \
         aggfinalextra b, aggmfinalextra b, aggfinalmodify c, aggmfinalmodify c, aggsortop n, \
         aggtranstype n, aggtransspace i, aggmtranstype n, aggmtransspace i, agginitval ?t, \
         aggminitval ?t",
    ),
    ("pg_am", 2601, "oid n, amname m, amhandler i, amtype c"),
    (
        "pg_amop",
        2602,
        "oid n, amopfamily n, amoplefttype n, amoprighttype n, amopstrategy i, amoppurpose c, \
         amopopr n, amopmethod n, amopsortfamily n",
    ),
    ("pg_amproc", 2603, "oid n, amprocfamily n, amproclefttype n, amprocrighttype n, amprocnum i, amproc i"),
    ("pg_attrdef", 2604, "oid n, adrelid n, adnum i, adbin t"),
    (
        "pg_attribute",
        1249,
        "attrelid n, attname m, atttypid n, attstattarget i, attlen i, attnum i, attndims i, \
         attcacheoff i, atttypmod i, attbyval b, attalign c, attstorage c, attcompression c, \
         attnotnull b, atthasdef b, atthasmissing b, attidentity c, attgenerated c, \
         attisdropped b, attislocal b, attinhcount i, attcollation n, attacl ?T, attoptions ?T, \
         attfdwoptions ?T, attmissingval ?t",
    ),
    ("pg_auth_members", 1261, "roleid n, member n, grantor n, admin_option b"),
    (
        "pg_authid",
        1260,
        "oid n, rolname m, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, \
         rolcanlogin b, rolreplication b, rolbypassrls b, rolconnlimit i, rolpassword ?t, \
         rolvaliduntil ?z",
    ),
    ("pg_cast", 2605, "oid n, castsource n, casttarget n, castfunc n, castcontext c, castmethod c"),
    (
        "pg_class",
        1259,
        "oid n, relname m, relnamespace n, reltype n, reloftype n, relowner n, relam n, \
         relfilenode n, reltablespace n, relpages i, reltuples f, relallvisible i, \
         reltoastrelid n, relhasindex b, relisshared b, relpersistence c, relkind c, relnatts i, \
         relchecks i, relhasrules b, relhastriggers b, relhassubclass b, relrowsecurity b, \
         relforcerowsecurity b, relispopulated b, relreplident c, relispartition b, \
         relrewrite n, relfrozenxid i, relminmxid i, relacl ?T, reloptions ?T, relpartbound ?t",
    ),
    (
        "pg_collation",
        3456,
        "oid n, collname m, collnamespace n, collowner n, collprovider c, collisdeterministic b, \
         collencoding i, collcollate ?t, collctype ?t, colliculocale ?t, collversion ?t",
    ),
    (
        "pg_constraint",
        2606,
        "oid n, conname m, connamespace n, contype c, condeferrable b, condeferred b, \
         convalidated b, conrelid n, contypid n, conindid n, conparentid n, confrelid n, \
         confupdtype c, confdeltype c, confmatchtype c, conislocal b, coninhcount i, \
         connoinherit b, conkey ?S, confkey ?S, conpfeqop ?I, conppeqop ?I, conffeqop ?I, \
         confdelsetcols ?S, conexclop ?I, conbin ?t",
    ),
    (
        "pg_conversion",
        2607,
        "oid n, conname m, connamespace n, conowner n, conforencoding i, contoencoding i, \
         conproc i, condefault b",
    ),
    (
        "pg_database",
        1262,
        "oid n, datname m, datdba n, encoding i, datlocprovider c, datistemplate b, \
         datallowconn b, datconnlimit i, datfrozenxid i, datminmxid i, dattablespace n, \
         datcollate t, datctype t, daticulocale ?t, datcollversion ?t, datacl ?T",
    ),
    ("pg_db_role_setting", 2964, "setdatabase n, setrole n, setconfig ?T"),
    ("pg_default_acl", 826, "oid n, defaclrole n, defaclnamespace n, defaclobjtype c, defaclacl T"),
    ("pg_depend", 2608, "classid n, objid n, objsubid i, refclassid n, refobjid n, refobjsubid i, deptype c"),
    ("pg_description", 2609, "objoid n, classoid n, objsubid i, description t"),
    ("pg_enum", 3501, "oid n, enumtypid n, enumsortorder f, enumlabel m"),
    (
        "pg_event_trigger",
        3466,
        "oid n, evtname m, evtevent m, evtowner n, evtfoid n, evtenabled c, evttags ?T",
    ),
    (
        "pg_extension",
        3079,
        "oid n, extname m, extowner n, extnamespace n, extrelocatable b, extversion t, \
         extconfig ?I, extcondition ?T",
    ),
    (
        "pg_foreign_data_wrapper",
        2328,
        "oid n, fdwname m, fdwowner n, fdwhandler n, fdwvalidator n, fdwacl ?T, fdwoptions ?T",
    ),
    (
        "pg_foreign_server",
        1417,
        "oid n, srvname m, srvowner n, srvfdw n, srvtype ?t, srvversion ?t, srvacl ?T, \
         srvoptions ?T",
    ),
    ("pg_foreign_table", 3118, "ftrelid n, ftserver n, ftoptions ?T"),
    (
        "pg_index",
        2610,
        "indexrelid n, indrelid n, indnatts i, indnkeyatts i, indisunique b, \
         indnullsnotdistinct b, indisprimary b, indisexclusion b, indimmediate b, \
         indisclustered b, indisvalid b, indcheckxmin b, indisready b, indislive b, \
         indisreplident b, indkey v, indcollation V, indclass V, indoption v, indexprs ?t, \
         indpred ?t",
    ),
    ("pg_inherits", 2611, "inhrelid n, inhparent n, inhseqno i, inhdetachpending b"),
    ("pg_init_privs", 3394, "objoid n, classoid n, objsubid i, privtype c, initprivs T"),
    (
        "pg_language",
        2612,
        "oid n, lanname m, lanowner n, lanispl b, lanpltrusted b, lanplcallfoid n, laninline n, \
         lanvalidator n, lanacl ?T",
    ),
    ("pg_largeobject", 2613, "loid n, pageno i, data y"),
    ("pg_largeobject_metadata", 2995, "oid n, lomowner n, lomacl ?T"),
    ("pg_namespace", 2615, "oid n, nspname m, nspowner n, nspacl ?T"),
    (
        "pg_opclass",
        2616,
        "oid n, opcmethod n, opcname m, opcnamespace n, opcowner n, opcfamily n, opcintype n, \
         opcdefault b, opckeytype n",
    ),
    (
        "pg_operator",
        2617,
        "oid n, oprname m, oprnamespace n, oprowner n, oprkind c, oprcanmerge b, oprcanhash b, \
         oprleft n, oprright n, oprresult n, oprcom n, oprnegate n, oprcode i, oprrest p, \
         oprjoin p",
    ),
    ("pg_opfamily", 2753, "oid n, opfmethod n, opfname m, opfnamespace n, opfowner n"),
    ("pg_parameter_acl", 6243, "oid n, parname t, paracl ?T"),
    (
        "pg_partitioned_table",
        3350,
        "partrelid n, partstrat c, partnatts i, partdefid n, partattrs v, partclass V, \
         partcollation V, partexprs ?t",
    ),
    (
        "pg_policy",
        3256,
        "oid n, polname m, polrelid n, polcmd c, polpermissive b, polroles I, polqual ?t, \
         polwithcheck ?t",
    ),
    (
        "pg_proc",
        1255,
        "oid n, proname m, pronamespace n, proowner n, prolang n, procost f, prorows f, \
         provariadic n, prosupport p, prokind c, prosecdef b, proleakproof b, proisstrict b, \
         proretset b, provolatile c, proparallel c, pronargs i, pronargdefaults i, prorettype n, \
         proargtypes V, proallargtypes ?o, proargmodes ?T, proargnames ?T, proargdefaults ?t, \
         protrftypes ?I, prosrc t, probin ?t, prosqlbody ?t, proconfig ?T, proacl ?T",
    ),
    (
        "pg_publication",
        6104,
        "oid n, pubname m, pubowner n, puballtables b, pubinsert b, pubupdate b, pubdelete b, \
         pubtruncate b, pubviaroot b",
    ),
    ("pg_publication_namespace", 6237, "oid n, pnpubid n, pnnspid n"),
    ("pg_publication_rel", 6106, "oid n, prpubid n, prrelid n, prqual ?t, prattrs ?I"),
    (
        "pg_range",
        3541,
        "rngtypid n, rngsubtype n, rngmultitypid n, rngcollation n, rngsubopc n, rngcanonical i, \
         rngsubdiff i",
    ),
    ("pg_replication_origin", 6000, "roident n, roname t"),
    (
        "pg_rewrite",
        2618,
        "oid n, rulename m, ev_class n, ev_type c, ev_enabled c, is_instead b, ev_qual t, \
         ev_action t",
    ),
    ("pg_seclabel", 3596, "objoid n, classoid n, objsubid i, provider t, label t"),
    (
        "pg_sequence",
        2224,
        "seqrelid n, seqtypid n, seqstart l, seqincrement l, seqmax l, seqmin l, seqcache l, \
         seqcycle b",
    ),
    ("pg_shdepend", 1214, "dbid n, classid n, objid n, objsubid i, refclassid n, refobjid n, deptype c"),
    ("pg_shdescription", 2396, "objoid n, classoid n, description t"),
    ("pg_shseclabel", 3592, "objoid n, classoid n, provider t, label t"),
    (
        "pg_statistic",
        2619,
        "starelid n, staattnum i, stainherit b, stanullfrac f, stawidth i, stadistinct f, \
         stakind1 i, stakind2 i, stakind3 i, stakind4 i, stakind5 i, staop1 n, staop2 n, \
         staop3 n, staop4 n, staop5 n, stacoll1 n, stacoll2 n, stacoll3 n, stacoll4 n, \
         stacoll5 n, stanumbers1 ?F, stanumbers2 ?F, stanumbers3 ?F, stanumbers4 ?F, \
         stanumbers5 ?F, stavalues1 ?t, stavalues2 ?t, stavalues3 ?t, stavalues4 ?t, \
         stavalues5 ?t",
    ),
    (
        "pg_statistic_ext",
        3381,
        "oid n, stxrelid n, stxname m, stxnamespace n, stxowner n, stxstattarget i, stxkeys v, \
         stxkind T, stxexprs ?t",
    ),
    (
        "pg_statistic_ext_data",
        3429,
        "stxoid n, stxdinherit b, stxdndistinct ?t, stxddependencies ?t, stxdmcv ?t, stxdexpr ?t",
    ),
    (
        "pg_subscription",
        6100,
        "oid n, subdbid n, subskiplsn t, subname m, subowner n, subenabled b, subbinary b, \
         substream b, subtwophasestate c, subdisableonerr b, subconninfo t, subslotname ?m, \
         subsynccommit t, subpublications T",
    ),
    ("pg_subscription_rel", 6102, "srsubid n, srrelid n, srsubstate c, srsublsn ?t"),
    ("pg_tablespace", 1213, "oid n, spcname m, spcowner n, spcacl ?T, spcoptions ?T"),
    ("pg_transform", 3576, "oid n, trftype n, trflang n, trffromsql i, trftosql i"),
    (
        "pg_trigger",
        2620,
        "oid n, tgrelid n, tgparentid n, tgname m, tgfoid n, tgtype i, tgenabled c, \
         tgisinternal b, tgconstrrelid n, tgconstrindid n, tgconstraint n, tgdeferrable b, \
         tginitdeferred b, tgnargs i, tgattr v, tgargs y, tgqual ?t, tgoldtable ?m, tgnewtable ?m",
    ),
    ("pg_ts_config", 3602, "oid n, cfgname m, cfgnamespace n, cfgowner n, cfgparser n"),
    ("pg_ts_config_map", 3603, "mapcfg n, maptokentype i, mapseqno i, mapdict n"),
    (
        "pg_ts_dict",
        3600,
        "oid n, dictname m, dictnamespace n, dictowner n, dicttemplate n, dictinitoption ?t",
    ),
    (
        "pg_ts_parser",
        3601,
        "oid n, prsname m, prsnamespace n, prsstart i, prstoken i, prsend i, prsheadline i, \
         prslextype i",
    ),
    ("pg_ts_template", 3764, "oid n, tmplname m, tmplnamespace n, tmplinit i, tmpllexize i"),
    (
        "pg_type",
        1247,
        "oid n, typname m, typnamespace n, typowner n, typlen i, typbyval b, typtype c, \
         typcategory c, typispreferred b, typisdefined b, typdelim c, typrelid n, \
         typsubscript p, typelem n, typarray n, typinput p, typoutput p, typreceive p, \
         typsend p, typmodin p, typmodout p, typanalyze p, typalign c, typstorage c, \
         typnotnull b, typbasetype n, typtypmod i, typndims i, typcollation n, typdefaultbin ?t, \
         typdefault ?t, typacl ?T",
    ),
    ("pg_user_mapping", 1418, "oid n, umuser n, umserver n, umoptions ?T"),
];

/// Returns the type that a letter denotes.
fn type_of(letter: &str) -> Type {
    match letter {
        "b" => BOOL,
        "i" => INT,
        "n" => OID,
        "l" => ScalarType::BigInt.into(),
        "f" => ScalarType::Double.into(),
        "z" => ScalarType::Timestamptz.into(),
        "y" => ScalarType::Bytea.into(),
        "I" | "V" | "v" => INTS,
        "S" => SMALL_INTS,
        "o" => OIDS,
        "T" => TEXTS,
        "F" => Type::Array(ScalarType::Double),
        _ => TEXT,
    }
}

/// The declaration of a column.
#[derive(Clone, Copy)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) ty: Type,
    may_be_null: bool,
    /// Whether its values are names of functions.
    is_function: bool,
}

/// Returns the columns of a declaration.
pub(super) fn columns_of(declared: &'static str) -> impl Iterator<Item = Declared> {
    declared.split(", ").map(|column| {
        let (name, letter) = column.split_once(' ').unwrap_or((column, "t"));
        let ty = type_of(letter.trim_start_matches('?'));
        Declared { name, ty, may_be_null: letter.starts_with('?'), is_function: letter == "p" }
    })
}

/// Returns the value of a column that Reprise does not fill.
fn unknown(declared: Declared) -> Cell {
    match declared.ty {
        _ if declared.may_be_null => Cell::Null,
        // PostgreSQL's output for "no function".
        _ if declared.is_function => "-".into(),
        BOOL => Cell::Bool(false),
        INTS => Cell::Ints(Vec::new()),
        TEXT => Cell::Text(String::new()),
        Type::Array(_) => Cell::Null,
        Type::Scalar(_) => Cell::Int(0),
    }
}

/// The OIDs of the types `int2vector` and `oidvector`. Their output separates elements by blanks, and their
/// subscripts begin at 0.
pub const VECTORS: [u32; 2] = [22, 30];

/// The OID of the type `void`.
pub const VOID: u32 = 2278;

/// The OID of the type `"char"`.
pub const CHAR: u32 = 18;
/// The OID of the type `name`.
pub const NAME: u32 = 19;

/// Returns the OID of a catalog column's type in PostgreSQL, if it is `int2vector`, `oidvector`, `"char"` or
/// `name`, which Reprise lacks, and of a result of `void`; `None` for any other column.
pub fn catalog_type(origin: ColumnOrigin) -> Option<u32> {
    if origin == ColumnOrigin::VOID {
        return Some(VOID);
    }
    // Tables and views of the schema have greater OIDs.
    if i64::from(origin.relation) >= crate::oids::FIRST_TABLE {
        return None;
    }
    let (.., columns) = CATALOGS.iter().find(|table| table.1 == i64::from(origin.relation))?;
    let column = columns.split(", ").nth(usize::from(origin.column).checked_sub(1)?)?;
    match column.rsplit_once(' ')?.1.trim_start_matches('?') {
        "v" => Some(VECTORS[0]),
        "V" => Some(VECTORS[1]),
        "c" => Some(CHAR),
        "m" => Some(NAME),
        _ => None,
    }
}

/// Returns the OID of a table of `pg_catalog`.
pub(crate) fn catalog_oid(name: &str) -> Option<i64> {
    CATALOGS.iter().find(|table| table.0 == name).map(|table| table.1)
}

/// Returns the OIDs and names of the tables of `pg_catalog`.
pub(crate) fn catalog_names() -> impl Iterator<Item = (i64, String)> {
    CATALOGS.iter().map(|(name, oid, _)| (*oid, (*name).to_owned()))
}

/// Returns a relation with all columns of PostgreSQL's table of this name, in PostgreSQL's order. A relation
/// that is no such table stays unchanged.
pub(super) fn completed(name: &str, known: Option<SystemRelation>) -> Option<SystemRelation> {
    let Some((_, oid, declared)) = CATALOGS.iter().find(|table| table.0 == name) else { return known };
    let known = known.unwrap_or_else(|| SystemRelation::new(&[], Vec::new()));
    let completed = with_columns(known, columns_of(declared), unknown);
    Some(SystemRelation { oid: Some(*oid), ..completed })
}

/// Returns a relation with the declared columns. A column that it lacks has the value `unknown` in all rows.
pub(super) fn with_columns(
    relation: SystemRelation,
    declared: impl Iterator<Item = Declared>,
    unknown: impl Fn(Declared) -> Cell,
) -> SystemRelation {
    let SystemRelation { columns: known, rows, .. } = relation;
    let SystemRows::Known(rows) = rows else { unreachable!("the definitions determine the rows of tables") };
    let (mut columns, mut sources) = (Vec::new(), Vec::new());
    for column in declared {
        let source = known.iter().position(|(name, _)| *name == column.name);
        let ty = match column.ty {
            OID | OIDS => column.ty,
            ty => source.map_or(ty, |position| known[position].1),
        };
        sources.push(source.ok_or_else(|| unknown(Declared { ty, ..column })));
        columns.push((column.name, ty));
    }
    let of_row = |row: &Vec<Cell>| {
        let cell = |source: &Result<usize, Cell>| match source {
            Ok(position) => row[*position].clone(),
            Err(unknown) => unknown.clone(),
        };
        sources.iter().map(cell).collect()
    };
    debug_assert!(
        known.iter().all(|(known_name, _)| columns.iter().any(|(name, _)| name == known_name)),
        "{columns:?}"
    );
    SystemRelation { columns, rows: SystemRows::Known(rows.iter().map(of_row).collect()), oid: None }
}
