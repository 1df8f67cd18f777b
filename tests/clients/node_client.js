// node-postgres against a server: types, pools, cursors, COPY, notifications. Arguments: a port, a database.
// Prints what it is answered; `run` compares PostgreSQL's answers with Reprise's.
const { Client, Pool, types } = require('pg');
const Cursor = require('pg-cursor');
const { from: copyFrom, to: copyTo } = require('pg-copy-streams');
const { pipeline } = require('stream/promises');
const { Readable } = require('stream');

const settings = { host: '127.0.0.1', port: Number(process.argv[2]), user: 'postgres', database: process.argv[3] };
const show = (...values) => console.log(...values.map((value) => JSON.stringify(value)));

async function failed(client, ...query) {
  try {
    await client.query(...query);
    show('no error');
  } catch (error) {
    const { code, message, severity, table, constraint, column, position } = error;
    show(code, message, severity, table, constraint, column, position);
  }
}

async function valuesComeBack(client) {
  await client.query("CREATE TYPE mood AS ENUM ('sad', 'happy')");
  await client.query(`CREATE TABLE p (id SERIAL PRIMARY KEY, t TEXT, n NUMERIC(10,2), ts TIMESTAMPTZ, b BYTEA, u UUID, d DATE,
    f FLOAT8, ok BOOL, i INTERVAL, at TIME, j JSONB, a INT[], m mood, big BIGINT, x TEXT[])`);
  const row = ['héllo\t', '12.50', new Date(Date.UTC(2024, 1, 29)), Buffer.from([0, 255]), '13714fd7-6c92-43de-8ed2-179507e7330c',
    '2024-02-29', 1.5, true, '1 day 02:03:04', '10:20', { a: [1, null] }, [1, null, 3], 'happy', '9007199254740993', ['a', 'b "c"', null]];
  const marks = row.map((_, n) => `$${n + 1}`).join(', ');
  const inserted = await client.query(`INSERT INTO p (t, n, ts, b, u, d, f, ok, i, at, j, a, m, big, x) VALUES (${marks}) RETURNING *`, row);
  show(inserted.command, inserted.rowCount, inserted.rows);
  show(inserted.fields.map(({ name, dataTypeSize, dataTypeModifier, columnID, format }) => [name, dataTypeSize, dataTypeModifier, columnID, format]));
  show((await client.query({ text: 'SELECT id, t FROM p WHERE id = $1', values: [1], rowMode: 'array' })).rows);
  for (let n = 0; n < 3; n += 1) {
    show((await client.query({ name: 'kept', text: 'SELECT $1::int + $2::int AS sum', values: [n, 4] })).rows);
  }
  show((await client.query('SELECT 1 AS a; SELECT 2 AS b')).map((result) => result.rows));
  show((await client.query('SELECT $1::text AS t, $2 = ANY ($3) AS found', [null, 'a', ['a', 'b']])).rows);
  show((await client.query({ text: 'SELECT id, big, j, a FROM p WHERE id < $1', values: [10], binary: false })).rows);
}

async function errorsSayWhatTheyAreAbout(client) {
  await failed(client, 'INSERT INTO p (id) VALUES (1)');
  await failed(client, 'SELECT * FROM nothing WHERE id = $1', [1]);
  await failed(client, 'SELECT 1 / $1::int', [0]);
  await failed(client, "SELECT 'x'::int");
  await failed(client, 'INSERT INTO p (m) VALUES ($1)', ['angry']);
  await client.query('BEGIN');
  await failed(client, 'SELECT nothing');
  await failed(client, 'SELECT 1');
  await client.query('ROLLBACK');
}

async function rowsStream(client) {
  await pipeline(Readable.from(['100\tcopied\n', '101\t\\N\n']), client.query(copyFrom('COPY p (id, t) FROM STDIN')));
  let out = '';
  for await (const part of client.query(copyTo('COPY (SELECT id, t FROM p ORDER BY id) TO STDOUT (FORMAT csv)'))) out += part;
  show(out);
  const cursor = client.query(new Cursor('SELECT n FROM generate_series(1, $1::int) AS n', [8]));
  show(await cursor.read(3), await cursor.read(3), await cursor.read(3), await cursor.read(3));
  await cursor.close();
}

async function notificationsArrive(client) {
  const other = new Client(settings);
  await other.connect();
  const heard = [];
  const last = new Promise((resolve) => {
    client.on('notification', ({ channel, payload }) => {
      heard.push([channel, payload]);
      if (payload === 'last') resolve();
    });
  });
  await client.query('LISTEN news');
  await client.query('LISTEN "Other News"');
  await other.query('BEGIN');
  for (const payload of ['first', 'second', 'first']) await other.query('SELECT pg_notify($1, $2)', ['news', payload]);
  await other.query(`NOTIFY "Other News", 'it''s'`);
  show(heard);
  await other.query('COMMIT');
  await other.query("NOTIFY news, 'last'");
  await last;
  await client.query('UNLISTEN *');
  await other.query("NOTIFY news, 'unheard'");
  await client.query('SELECT 1');
  show(heard);
  await other.end();
}

async function poolsGiveConnections() {
  const pool = new Pool({ ...settings, max: 3 });
  const sums = await Promise.all([...Array(20).keys()].map((n) => pool.query('SELECT $1::int * 2 AS n', [n])));
  show(sums.map((result) => result.rows[0].n));
  const client = await pool.connect();
  await client.query('BEGIN');
  await client.query('UPDATE p SET t = $1 WHERE id = 1', ['changed']);
  await client.query('ROLLBACK');
  client.release();
  show((await pool.query('SELECT t FROM p WHERE id = 1')).rows);
  await pool.end();
}

async function main() {
  const client = new Client(settings);
  const notices = [];
  client.on('notice', ({ severity, code, message }) => notices.push([severity, code, message]));
  await client.connect();
  for (const check of [valuesComeBack, errorsSayWhatTheyAreAbout, rowsStream, notificationsArrive, poolsGiveConnections]) {
    console.log(check.name);
    await check(client);
  }
  await client.query("DO $$ BEGIN RAISE NOTICE 'careful'; END $$");
  show(notices);
  await client.end();
}

main().catch((error) => { console.error(error); process.exit(1); });
