//! The tables of PostgreSQL's `pg_catalog`: the number of each, and its columns in their order.
//! Source: PostgreSQL 15's `pg_attribute`.
//!
//! A table of which Reprise has no rows is empty. A column of which Reprise knows nothing is NULL where
//! PostgreSQL allows that, and otherwise 0, false or empty.

use super::{BOOL, Cell, INT, INTS, SystemRelation, SystemRows, TEXT, TEXTS};
use crate::plan::ColumnOrigin;
use catalog::{ScalarType, Type};

/// A table: its name, its number, and its columns, each with a letter for its type. `?` is a column that
/// may be
/// NULL.
type Catalog = (&'static str, i64, &'static str);

const CATALOGS: [Catalog; 64] = [
    (
        "pg_aggregate",
        2600,
        "aggfnoid i, aggkind t, aggnumdirectargs i, aggtransfn i, aggfinalfn i, aggcombinefn i, \
         aggserialfn i, aggdeserialfn i, aggmtransfn i, aggminvtransfn i, aggmfinalfn i, \
         aggfinalextra b, aggmfinalextra b, aggfinalmodify t, aggmfinalmodify t, aggsortop i, \
         aggtranstype i, aggtransspace i, aggmtranstype i, aggmtransspace i, agginitval ?t, \
         aggminitval ?t",
    ),
    ("pg_am", 2601, "oid i, amname t, amhandler i, amtype t"),
    (
        "pg_amop",
        2602,
        "oid i, amopfamily i, amoplefttype i, amoprighttype i, amopstrategy i, amoppurpose t, \
         amopopr i, amopmethod i, amopsortfamily i",
    ),
    ("pg_amproc", 2603, "oid i, amprocfamily i, amproclefttype i, amprocrighttype i, amprocnum i, amproc i"),
    ("pg_attrdef", 2604, "oid i, adrelid i, adnum i, adbin t"),
    (
        "pg_attribute",
        1249,
        "attrelid i, attname t, atttypid i, attstattarget i, attlen i, attnum i, attndims i, \
         attcacheoff i, atttypmod i, attbyval b, attalign t, attstorage t, attcompression t, \
         attnotnull b, atthasdef b, atthasmissing b, attidentity t, attgenerated t, \
         attisdropped b, attislocal b, attinhcount i, attcollation i, attacl ?T, attoptions ?T, \
         attfdwoptions ?T, attmissingval ?t",
    ),
    ("pg_auth_members", 1261, "roleid i, member i, grantor i, admin_option b"),
    (
        "pg_authid",
        1260,
        "oid i, rolname t, rolsuper b, rolinherit b, rolcreaterole b, rolcreatedb b, \
         rolcanlogin b, rolreplication b, rolbypassrls b, rolconnlimit i, rolpassword ?t, \
         rolvaliduntil ?z",
    ),
    ("pg_cast", 2605, "oid i, castsource i, casttarget i, castfunc i, castcontext t, castmethod t"),
    (
        "pg_class",
        1259,
        "oid i, relname t, relnamespace i, reltype i, reloftype i, relowner i, relam i, \
         relfilenode i, reltablespace i, relpages i, reltuples f, relallvisible i, \
         reltoastrelid i, relhasindex b, relisshared b, relpersistence t, relkind t, relnatts i, \
         relchecks i, relhasrules b, relhastriggers b, relhassubclass b, relrowsecurity b, \
         relforcerowsecurity b, relispopulated b, relreplident t, relispartition b, \
         relrewrite i, relfrozenxid i, relminmxid i, relacl ?T, reloptions ?T, relpartbound ?t",
    ),
    (
        "pg_collation",
        3456,
        "oid i, collname t, collnamespace i, collowner i, collprovider t, collisdeterministic b, \
         collencoding i, collcollate ?t, collctype ?t, colliculocale ?t, collversion ?t",
    ),
    (
        "pg_constraint",
        2606,
        "oid i, conname t, connamespace i, contype t, condeferrable b, condeferred b, \
         convalidated b, conrelid i, contypid i, conindid i, conparentid i, confrelid i, \
         confupdtype t, confdeltype t, confmatchtype t, conislocal b, coninhcount i, \
         connoinherit b, conkey ?I, confkey ?I, conpfeqop ?I, conppeqop ?I, conffeqop ?I, \
         confdelsetcols ?I, conexclop ?I, conbin ?t",
    ),
    (
        "pg_conversion",
        2607,
        "oid i, conname t, connamespace i, conowner i, conforencoding i, contoencoding i, \
         conproc i, condefault b",
    ),
    (
        "pg_database",
        1262,
        "oid i, datname t, datdba i, encoding i, datlocprovider t, datistemplate b, \
         datallowconn b, datconnlimit i, datfrozenxid i, datminmxid i, dattablespace i, \
         datcollate t, datctype t, daticulocale ?t, datcollversion ?t, datacl ?T",
    ),
    ("pg_db_role_setting", 2964, "setdatabase i, setrole i, setconfig ?T"),
    ("pg_default_acl", 826, "oid i, defaclrole i, defaclnamespace i, defaclobjtype t, defaclacl T"),
    ("pg_depend", 2608, "classid i, objid i, objsubid i, refclassid i, refobjid i, refobjsubid i, deptype t"),
    ("pg_description", 2609, "objoid i, classoid i, objsubid i, description t"),
    ("pg_enum", 3501, "oid i, enumtypid i, enumsortorder f, enumlabel t"),
    (
        "pg_event_trigger",
        3466,
        "oid i, evtname t, evtevent t, evtowner i, evtfoid i, evtenabled t, evttags ?T",
    ),
    (
        "pg_extension",
        3079,
        "oid i, extname t, extowner i, extnamespace i, extrelocatable b, extversion t, \
         extconfig ?I, extcondition ?T",
    ),
    (
        "pg_foreign_data_wrapper",
        2328,
        "oid i, fdwname t, fdwowner i, fdwhandler i, fdwvalidator i, fdwacl ?T, fdwoptions ?T",
    ),
    (
        "pg_foreign_server",
        1417,
        "oid i, srvname t, srvowner i, srvfdw i, srvtype ?t, srvversion ?t, srvacl ?T, \
         srvoptions ?T",
    ),
    ("pg_foreign_table", 3118, "ftrelid i, ftserver i, ftoptions ?T"),
    (
        "pg_index",
        2610,
        "indexrelid i, indrelid i, indnatts i, indnkeyatts i, indisunique b, \
         indnullsnotdistinct b, indisprimary b, indisexclusion b, indimmediate b, \
         indisclustered b, indisvalid b, indcheckxmin b, indisready b, indislive b, \
         indisreplident b, indkey v, indcollation V, indclass V, indoption v, indexprs ?t, \
         indpred ?t",
    ),
    ("pg_inherits", 2611, "inhrelid i, inhparent i, inhseqno i, inhdetachpending b"),
    ("pg_init_privs", 3394, "objoid i, classoid i, objsubid i, privtype t, initprivs T"),
    (
        "pg_language",
        2612,
        "oid i, lanname t, lanowner i, lanispl b, lanpltrusted b, lanplcallfoid i, laninline i, \
         lanvalidator i, lanacl ?T",
    ),
    ("pg_largeobject", 2613, "loid i, pageno i, data y"),
    ("pg_largeobject_metadata", 2995, "oid i, lomowner i, lomacl ?T"),
    ("pg_namespace", 2615, "oid i, nspname t, nspowner i, nspacl ?T"),
    (
        "pg_opclass",
        2616,
        "oid i, opcmethod i, opcname t, opcnamespace i, opcowner i, opcfamily i, opcintype i, \
         opcdefault b, opckeytype i",
    ),
    (
        "pg_operator",
        2617,
        "oid i, oprname t, oprnamespace i, oprowner i, oprkind t, oprcanmerge b, oprcanhash b, \
         oprleft i, oprright i, oprresult i, oprcom i, oprnegate i, oprcode i, oprrest p, \
         oprjoin p",
    ),
    ("pg_opfamily", 2753, "oid i, opfmethod i, opfname t, opfnamespace i, opfowner i"),
    ("pg_parameter_acl", 6243, "oid i, parname t, paracl ?T"),
    (
        "pg_partitioned_table",
        3350,
        "partrelid i, partstrat t, partnatts i, partdefid i, partattrs v, partclass V, \
         partcollation V, partexprs ?t",
    ),
    (
        "pg_policy",
        3256,
        "oid i, polname t, polrelid i, polcmd t, polpermissive b, polroles I, polqual ?t, \
         polwithcheck ?t",
    ),
    (
        "pg_proc",
        1255,
        "oid i, proname t, pronamespace i, proowner i, prolang i, procost f, prorows f, \
         provariadic i, prosupport p, prokind t, prosecdef b, proleakproof b, proisstrict b, \
         proretset b, provolatile t, proparallel t, pronargs i, pronargdefaults i, prorettype i, \
         proargtypes V, proallargtypes ?o, proargmodes ?T, proargnames ?T, proargdefaults ?t, \
         protrftypes ?I, prosrc t, probin ?t, prosqlbody ?t, proconfig ?T, proacl ?T",
    ),
    (
        "pg_publication",
        6104,
        "oid i, pubname t, pubowner i, puballtables b, pubinsert b, pubupdate b, pubdelete b, \
         pubtruncate b, pubviaroot b",
    ),
    ("pg_publication_namespace", 6237, "oid i, pnpubid i, pnnspid i"),
    ("pg_publication_rel", 6106, "oid i, prpubid i, prrelid i, prqual ?t, prattrs ?I"),
    (
        "pg_range",
        3541,
        "rngtypid i, rngsubtype i, rngmultitypid i, rngcollation i, rngsubopc i, rngcanonical i, \
         rngsubdiff i",
    ),
    ("pg_replication_origin", 6000, "roident i, roname t"),
    (
        "pg_rewrite",
        2618,
        "oid i, rulename t, ev_class i, ev_type t, ev_enabled t, is_instead b, ev_qual t, \
         ev_action t",
    ),
    ("pg_seclabel", 3596, "objoid i, classoid i, objsubid i, provider t, label t"),
    (
        "pg_sequence",
        2224,
        "seqrelid i, seqtypid i, seqstart l, seqincrement l, seqmax l, seqmin l, seqcache l, \
         seqcycle b",
    ),
    ("pg_shdepend", 1214, "dbid i, classid i, objid i, objsubid i, refclassid i, refobjid i, deptype t"),
    ("pg_shdescription", 2396, "objoid i, classoid i, description t"),
    ("pg_shseclabel", 3592, "objoid i, classoid i, provider t, label t"),
    (
        "pg_statistic",
        2619,
        "starelid i, staattnum i, stainherit b, stanullfrac f, stawidth i, stadistinct f, \
         stakind1 i, stakind2 i, stakind3 i, stakind4 i, stakind5 i, staop1 i, staop2 i, \
         staop3 i, staop4 i, staop5 i, stacoll1 i, stacoll2 i, stacoll3 i, stacoll4 i, \
         stacoll5 i, stanumbers1 ?F, stanumbers2 ?F, stanumbers3 ?F, stanumbers4 ?F, \
         stanumbers5 ?F, stavalues1 ?t, stavalues2 ?t, stavalues3 ?t, stavalues4 ?t, \
         stavalues5 ?t",
    ),
    (
        "pg_statistic_ext",
        3381,
        "oid i, stxrelid i, stxname t, stxnamespace i, stxowner i, stxstattarget i, stxkeys v, \
         stxkind T, stxexprs ?t",
    ),
    (
        "pg_statistic_ext_data",
        3429,
        "stxoid i, stxdinherit b, stxdndistinct ?t, stxddependencies ?t, stxdmcv ?t, stxdexpr ?t",
    ),
    (
        "pg_subscription",
        6100,
        "oid i, subdbid i, subskiplsn t, subname t, subowner i, subenabled b, subbinary b, \
         substream b, subtwophasestate t, subdisableonerr b, subconninfo t, subslotname ?t, \
         subsynccommit t, subpublications T",
    ),
    ("pg_subscription_rel", 6102, "srsubid i, srrelid i, srsubstate t, srsublsn ?t"),
    ("pg_tablespace", 1213, "oid i, spcname t, spcowner i, spcacl ?T, spcoptions ?T"),
    ("pg_transform", 3576, "oid i, trftype i, trflang i, trffromsql i, trftosql i"),
    (
        "pg_trigger",
        2620,
        "oid i, tgrelid i, tgparentid i, tgname t, tgfoid i, tgtype i, tgenabled t, \
         tgisinternal b, tgconstrrelid i, tgconstrindid i, tgconstraint i, tgdeferrable b, \
         tginitdeferred b, tgnargs i, tgattr v, tgargs y, tgqual ?t, tgoldtable ?t, tgnewtable ?t",
    ),
    ("pg_ts_config", 3602, "oid i, cfgname t, cfgnamespace i, cfgowner i, cfgparser i"),
    ("pg_ts_config_map", 3603, "mapcfg i, maptokentype i, mapseqno i, mapdict i"),
    (
        "pg_ts_dict",
        3600,
        "oid i, dictname t, dictnamespace i, dictowner i, dicttemplate i, dictinitoption ?t",
    ),
    (
        "pg_ts_parser",
        3601,
        "oid i, prsname t, prsnamespace i, prsstart i, prstoken i, prsend i, prsheadline i, \
         prslextype i",
    ),
    ("pg_ts_template", 3764, "oid i, tmplname t, tmplnamespace i, tmplinit i, tmpllexize i"),
    (
        "pg_type",
        1247,
        "oid i, typname t, typnamespace i, typowner i, typlen i, typbyval b, typtype t, \
         typcategory t, typispreferred b, typisdefined b, typdelim t, typrelid i, \
         typsubscript p, typelem i, typarray i, typinput p, typoutput p, typreceive p, \
         typsend p, typmodin p, typmodout p, typanalyze p, typalign t, typstorage t, \
         typnotnull b, typbasetype i, typtypmod i, typndims i, typcollation i, typdefaultbin ?t, \
         typdefault ?t, typacl ?T",
    ),
    ("pg_user_mapping", 1418, "oid i, umuser i, umserver i, umoptions ?T"),
];

/// Returns the type of a letter.
fn type_of(letter: &str) -> Type {
    match letter {
        "b" => BOOL,
        "i" => INT,
        "l" => ScalarType::BigInt.into(),
        "f" => ScalarType::Double.into(),
        "z" => ScalarType::Timestamptz.into(),
        "y" => ScalarType::Bytea.into(),
        "I" | "V" | "v" | "o" => INTS,
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
    /// Whether it names a function.
    is_function: bool,
}

/// Returns the columns of a relation.
pub(super) fn columns_of(declared: &'static str) -> impl Iterator<Item = Declared> {
    declared.split(", ").map(|column| {
        let (name, letter) = column.split_once(' ').unwrap_or((column, "t"));
        let ty = type_of(letter.trim_start_matches('?'));
        Declared { name, ty, may_be_null: letter.starts_with('?'), is_function: letter == "p" }
    })
}

/// Returns the value of a column of which nothing is known.
fn unknown(declared: Declared) -> Cell {
    match declared.ty {
        _ if declared.may_be_null => Cell::Null,
        // PostgreSQL shows no function so.
        _ if declared.is_function => "-".into(),
        BOOL => Cell::Bool(false),
        INTS => Cell::Ints(Vec::new()),
        TEXT => Cell::Text(String::new()),
        Type::Array(_) => Cell::Null,
        Type::Scalar(_) => Cell::Int(0),
    }
}

/// The numbers of the types `int2vector` and `oidvector`, whose values are shown as numbers with blanks
/// between
/// them, and whose first element is at 0.
pub const VECTORS: [u32; 2] = [22, 30];

/// Returns the type that PostgreSQL gives to a column of integers: `int2vector`, `oidvector` or `oid[]`.
/// `None`:
/// the column has the type that it has here.
pub fn integers_oid(origin: ColumnOrigin) -> Option<u32> {
    // Tables and views of the schema have greater numbers.
    if i64::from(origin.relation) >= crate::oids::FIRST_TABLE {
        return None;
    }
    let (.., columns) = CATALOGS.iter().find(|own| own.1 == i64::from(origin.relation))?;
    let column = columns.split(", ").nth(usize::from(origin.column).checked_sub(1)?)?;
    match column.rsplit_once(' ')?.1 {
        "v" => Some(VECTORS[0]),
        "V" => Some(VECTORS[1]),
        "?o" => Some(1028),
        _ => None,
    }
}

/// Returns the number of a table of `pg_catalog`.
pub(crate) fn catalog_oid(name: &str) -> Option<i64> {
    CATALOGS.iter().find(|own| own.0 == name).map(|own| own.1)
}

/// Returns the tables of `pg_catalog`: the number and the name of each.
pub(crate) fn catalog_names() -> impl Iterator<Item = (i64, String)> {
    CATALOGS.iter().map(|(name, oid, _)| (*oid, (*name).to_owned()))
}

/// Gives a relation all columns that PostgreSQL's table of the same name has, in its order. `None`: there
/// is no such table, and the relation is not known either.
pub(super) fn completed(name: &str, known: Option<SystemRelation>) -> Option<SystemRelation> {
    let Some((_, oid, declared)) = CATALOGS.iter().find(|own| own.0 == name) else { return known };
    let known = known.unwrap_or_else(|| SystemRelation::new(&[], Vec::new()));
    let completed = with_columns(known, columns_of(declared), unknown);
    Some(SystemRelation { oid: Some(*oid), ..completed })
}

/// Gives a relation these columns. One that it does not have has the value `unknown` in all rows.
pub(super) fn with_columns(
    relation: SystemRelation,
    declared: impl Iterator<Item = Declared>,
    unknown: impl Fn(Declared) -> Cell,
) -> SystemRelation {
    let SystemRelation { columns: known, rows, .. } = relation;
    let SystemRows::Known(rows) = rows else { unreachable!("tables follow from the definitions") };
    let (mut columns, mut sources) = (Vec::new(), Vec::new());
    for own in declared {
        let source = known.iter().position(|(name, _)| *name == own.name);
        let ty = source.map_or(own.ty, |place| known[place].1);
        sources.push(source.ok_or_else(|| unknown(Declared { ty, ..own })));
        columns.push((own.name, ty));
    }
    let of_row = |row: &Vec<Cell>| {
        let cell = |source: &Result<usize, Cell>| match source {
            Ok(place) => row[*place].clone(),
            Err(unknown) => unknown.clone(),
        };
        sources.iter().map(cell).collect()
    };
    debug_assert!(known.iter().all(|(own, _)| columns.iter().any(|(name, _)| name == own)), "{columns:?}");
    SystemRelation { columns, rows: SystemRows::Known(rows.iter().map(of_row).collect()), oid: None }
}
