"""asyncpg against a server: codecs, COPY, cursors, notifications, pools. Arguments: a port, a database.

Prints what it is answered; `run` compares PostgreSQL's answers with Reprise's."""

import asyncio
import datetime
import decimal
import io
import re
import sys
import uuid

import asyncpg


def show(*values):
    print(re.sub("0x[0-9a-f]+", "at", " ".join(repr(value) for value in values)))


async def failed(connection, query, *arguments):
    try:
        await connection.execute(query, *arguments) if not arguments else await connection.fetch(query, *arguments)
        show("no error")
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        show(type(error).__name__, str(error).split("\n")[0], getattr(error, "constraint_name", None))


async def values_come_back(connection):
    await connection.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    await connection.execute(
        "CREATE TABLE p (id INT PRIMARY KEY, t TEXT, n NUMERIC(10,2), ts TIMESTAMPTZ, b BYTEA, u UUID, d DATE, f FLOAT8,"
        " ok BOOL, i INTERVAL, at TIME, j JSONB, a INT[], m mood, v VARCHAR(5), c CHAR(3), s SMALLINT, x TEXT[], plain TIMESTAMP)"
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    row = (
        1, "h\u00e9llo\t", decimal.Decimal("12.50"), moment, b"\x00\xff", uuid.UUID(int=5), datetime.date(2024, 2, 29), 1.5,
        True, datetime.timedelta(days=3, seconds=4), datetime.time(10, 20), '{"a": 1}', [1, None, 3], "happy", "vvv", "c", 7,
        ["x", None, ""], datetime.datetime(2024, 5, 6),
    )
    marks = ", ".join(f"${n + 1}" for n in range(len(row)))
    show(await connection.execute(f"INSERT INTO p VALUES ({marks})", *row))
    found = await connection.fetchrow("SELECT * FROM p")
    show(list(found.items()))
    await connection.executemany("INSERT INTO p (id, t, m) VALUES ($1, $2, $3)", [(n, f"many {n}", "sad") for n in range(2, 12)])
    show(await connection.fetchval("SELECT count(*) FROM p WHERE id = ANY ($1::int[])", [1, 2, 3, 99]))
    show(await connection.fetch("SELECT id, m FROM p WHERE m = $1 ORDER BY id LIMIT $2", "sad", 2))
    show(await connection.fetch("SELECT $1::text AS t, $2::int8 AS n, $3::mood AS m, $4::date AS d", None, 2**40, "happy", None))
    show(await connection.fetch("UPDATE p SET t = t || $2 WHERE id < $1 RETURNING id, t", 4, "!"))
    show((await connection.fetch("SELECT * FROM unnest($1::text[], $2::int[]) AS x (a, b)", ["p", "q"], [1, 2])))
    statement = await connection.prepare("SELECT id, t, n, m FROM p WHERE id > $1 AND m <> $2")
    show([(own.name, own.type.name, own.type.kind) for own in statement.get_attributes()])
    show([own.name for own in statement.get_parameters()], statement.get_statusmsg())


async def rows_are_copied(connection):
    rows = [(n, f"copied\t{n}", decimal.Decimal(n) / 4) for n in range(100, 120)]
    show(await connection.copy_records_to_table("p", records=rows, columns=["id", "t", "n"]))
    show(await connection.copy_to_table("p", source=io.BytesIO(b"200,x\n201,\n"), columns=["id", "t"], format="csv"))
    out = io.BytesIO()
    show(await connection.copy_from_query("SELECT id, t FROM p WHERE id > $1 ORDER BY id", 117, output=out, format="csv"), out.getvalue())
    out = io.BytesIO()
    show(await connection.copy_from_table("p", columns=["id"], output=out, format="binary"), len(out.getvalue()))


async def transactions_nest(connection):
    async with connection.transaction(isolation="serializable"):
        await connection.execute("UPDATE p SET n = 77 WHERE id = 2")
        try:
            async with connection.transaction():
                await connection.execute("UPDATE p SET n = 88 WHERE id = 2")
                raise ValueError
        except ValueError:
            pass
        show(connection.is_in_transaction(), await connection.fetchval("SHOW transaction_isolation"))
    show(await connection.fetchval("SELECT n FROM p WHERE id = 2"))
    async with connection.transaction(readonly=True, deferrable=True, isolation="serializable"):
        await failed(connection, "DELETE FROM p")
    async with connection.transaction():
        show([row["id"] async for row in connection.cursor("SELECT id FROM p ORDER BY id", prefetch=3)][:7])
        cursor = await connection.cursor("SELECT id FROM p WHERE id > $1 ORDER BY id", 3)
        show(await cursor.fetch(2), await cursor.forward(1), await cursor.fetchrow(), len(await cursor.fetch(1000)))


async def errors_have_their_classes(connection):
    await failed(connection, "INSERT INTO p (id) VALUES (1)")
    await failed(connection, "SELECT $1::int", "not a number")
    await failed(connection, "SELECT 1/$1::int", 0)
    await failed(connection, "SELECT * FROM nothing")
    await failed(connection, "SELECT nothing()")
    await failed(connection, "SELEC")
    await failed(connection, "INSERT INTO p (id, m) VALUES ($1, $2)", 5000, "angry")
    try:
        await connection.fetch("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b", timeout=1)
    except asyncio.TimeoutError:
        show("timeout")
    show(await connection.fetchval("SELECT 1"))


async def notices_and_notifications_arrive(connection, other):
    notices, heard, arrived = [], [], asyncio.Event()

    def listener(of, process, channel, payload):
        heard.append((of is connection, process == other.get_server_pid(), channel, payload))
        if payload == "last":
            arrived.set()

    connection.add_log_listener(lambda _, message: notices.append((message.severity, message.sqlstate, message.message)))
    await connection.execute("DO $$ BEGIN RAISE NOTICE 'careful %', 1; END $$")
    await connection.add_listener("news", listener)
    async with other.transaction():
        for payload in ("first", "second", "first", ""):
            await other.fetchval("SELECT pg_notify('news', $1)", payload)
        await other.execute("NOTIFY unheard, 'x'")
        await asyncio.sleep(0.1)
        show(heard)
    try:
        async with other.transaction():
            await other.execute("NOTIFY news, 'taken back'")
            raise ValueError
    except ValueError:
        pass
    await other.execute("NOTIFY news, 'last'")
    await asyncio.wait_for(arrived.wait(), 10)
    await asyncio.sleep(0)
    show(notices, heard)
    await connection.remove_listener("news", listener)


async def pools_give_connections(settings):
    async with asyncpg.create_pool(**settings, min_size=2, max_size=4, command_timeout=20) as pool:
        async def work(n):
            async with pool.acquire() as own, own.transaction():
                await own.execute("SET LOCAL application_name = 'pooled'")
                return await own.fetchval("SELECT $1::int + 1", n)

        show(await asyncio.gather(*(work(n) for n in range(20))))
        show(await pool.fetchval("SHOW application_name"))


async def types_are_looked_up(connection):
    await connection.set_type_codec("jsonb", encoder=lambda own: own, decoder=lambda own: ("json", own), schema="pg_catalog")
    show(await connection.fetchval("SELECT '{\"a\": [1, 2]}'::jsonb"))
    await connection.reset_type_codec("jsonb", schema="pg_catalog")
    await connection.set_type_codec("mood", encoder=str, decoder=str.upper, schema="public")
    show(await connection.fetchval("SELECT m FROM p WHERE id = 1"))
    await connection.reload_schema_state()
    show(connection.get_settings().server_encoding, connection.get_server_version().major >= 15)


async def main():
    settings = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "postgres", "database": sys.argv[2]}
    connection, other = await asyncpg.connect(**settings), await asyncpg.connect(**settings)
    for check in (values_come_back, rows_are_copied, transactions_nest, errors_have_their_classes):
        print(check.__name__)
        await check(connection)
    print("notices_and_notifications_arrive")
    await notices_and_notifications_arrive(connection, other)
    print("pools_give_connections")
    await pools_give_connections(settings)
    print("types_are_looked_up")
    await types_are_looked_up(connection)
    await connection.close()
    await other.close()


asyncio.run(main())
