"""psycopg 3 against the server: values in both formats, COPY, pipelines, nested transactions, cancelling. Argument: a port."""

import datetime
import decimal
import sys
import threading
import uuid

import psycopg

connection = psycopg.connect(f"host=127.0.0.1 port={sys.argv[1]} user=test dbname=test", autocommit=True)
execute = connection.execute


def one(query, *arguments):
    return execute(query, arguments or None).fetchone()


def values_come_back_in_both_formats():
    execute(
        "CREATE TABLE p (id INT PRIMARY KEY, t TEXT, n NUMERIC(10,2), ts TIMESTAMPTZ, b BYTEA, u UUID, d DATE,"
        " f FLOAT8, ok BOOL)"
    )
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    day, number = datetime.date(2024, 2, 29), decimal.Decimal("12.50")
    row = (1, "h\u00e9llo\t\n\\", number, moment, b"\x00\xff", uuid.uuid4(), day, 1.5, True)
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            cursor.execute("DELETE FROM p")
            cursor.execute("INSERT INTO p VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", row)
            assert cursor.execute("SELECT * FROM p").fetchone() == row


def arrays_go_both_ways_in_both_formats():
    execute("CREATE TABLE arrays (id INT PRIMARY KEY, t TEXT)")
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    values = {
        "int": [1, None, -3],
        "bigint": [2**40, 0],
        "text": ["plain", 'a "b", {c}', "", "NULL", "\\ h\u00e9", None],
        "numeric": [decimal.Decimal("1.50"), decimal.Decimal("-0.001")],
        "float8": [0.5, float("inf"), None],
        "bool": [True, False, None],
        "date": [datetime.date(2024, 2, 29)],
        "timestamptz": [moment, None],
        "uuid": [uuid.uuid4(), None],
        "bytea": [b"\x00\xff", b""],
        "smallint": [],
    }
    for parameter in ("%s", "%t", "%b"):
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                for ty, array in values.items():
                    row = cursor.execute(f"SELECT {parameter}::{ty}[] AS a", (array,)).fetchone()
                    assert row == (array,), (parameter, binary, ty, row)
                cursor.execute("INSERT INTO arrays SELECT n, 'x' FROM unnest(%s::int[]) AS n ON CONFLICT DO NOTHING", ([1, 2, 3],))
                found = cursor.execute("SELECT array_agg(id ORDER BY id) FROM arrays WHERE id = ANY (%s)", ([2, 3, 9],))
                assert found.fetchone() == ([2, 3],)


def copy_goes_both_ways_in_all_formats():
    cursor = connection.cursor()
    for how in ("", "WITH (FORMAT BINARY)"):
        cursor.execute("TRUNCATE p")
        with cursor.copy(f"COPY p (id, t, n) FROM STDIN {how}") as copy:
            if how:
                copy.set_types(["int4", "text", "numeric"])
            for i in range(1000):
                copy.write_row((i, None if i % 7 == 0 else f"t\t{i}\\", decimal.Decimal(i) / 4))
        assert one("SELECT count(*), count(t), sum(n) FROM p") == (1000, 857, decimal.Decimal("124875.00"))
        with cursor.copy(f"COPY (SELECT id, t FROM p ORDER BY id LIMIT 10) TO STDOUT {how}") as copy:
            if how:
                copy.set_types(["int4", "text"])
            rows = list(copy.rows())
        assert rows[1][1] == "t\t1\\" and rows[0][1] is None and len(rows) == 10
    with cursor.copy("COPY p (id, t) FROM STDIN (FORMAT csv, HEADER)") as copy:
        copy.write('id,t\n5000,"a ""q"", b"\n5001,\n5002,""\n')
    rows = execute("SELECT t FROM p WHERE id >= 5000 ORDER BY id").fetchall()
    assert rows == [('a "q", b',), (None,), ("",)]
    with cursor.copy("COPY p (id, t) TO STDOUT (FORMAT csv)") as copy:
        assert b'5000,"a ""q"", b"\n5001,\n5002,""\n' in b"".join(copy)


def a_copy_that_fails_leaves_nothing():
    try:
        with connection.cursor().copy("COPY p (id, t) FROM STDIN") as copy:
            copy.write("9000\tx\nbad\ty\n")
        raise AssertionError("the second row is refused")
    except psycopg.errors.InvalidTextRepresentation:
        pass
    assert one("SELECT count(*) FROM p WHERE id = 9000") == (0,)


def errors_and_notices_say_what_they_are_about():
    try:
        execute("INSERT INTO arrays VALUES (1, 'again')")
        raise AssertionError("the key is taken")
    except psycopg.errors.UniqueViolation as error:
        told = error.diag
        assert told.message_detail == "Key (id)=(1) already exists.", told.message_detail
        assert (told.schema_name, told.table_name, told.constraint_name) == ("public", "arrays", "arrays_pkey")
    heard = []
    connection.add_notice_handler(lambda notice: heard.append((notice.severity, notice.sqlstate)))
    execute("COMMIT")
    execute("DO $$ BEGIN RAISE WARNING 'careful'; END $$", prepare=True)
    assert heard == [("WARNING", "25P01"), ("WARNING", "01000")], heard


def a_pipeline_is_one_transaction():
    try:
        with connection.pipeline():
            for i in (7001, 7002, 7001):
                execute("INSERT INTO p (id) VALUES (%s)", (i,))
        raise AssertionError("the third one is refused")
    except psycopg.errors.UniqueViolation:
        pass
    assert one("SELECT count(*) FROM p WHERE id > 7000") == (0,)
    with connection.pipeline():
        for i in range(100):
            execute("INSERT INTO p (id) VALUES (%s)", (8000 + i,))
    assert one("SELECT count(*) FROM p WHERE id >= 8000") == (100,)


def transactions_nest():
    with connection.transaction():
        execute("UPDATE p SET n = 77 WHERE id = 2")
        try:
            with connection.transaction():
                execute("UPDATE p SET n = 88 WHERE id = 2")
                raise ValueError
        except ValueError:
            pass
    assert one("SELECT n FROM p WHERE id = 2") == (decimal.Decimal("77.00"),)


def cursors_of_the_server_are_read_in_parts():
    with connection.transaction():
        with connection.cursor(name="part by part") as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT n, n * n FROM generate_series(1, 30) AS n")
            assert cursor.fetchone() == (1, 1)
            assert cursor.fetchmany(3) == [(2, 4), (3, 9), (4, 16)]
            assert [row[0] for row in cursor] == list(range(5, 31))
    for binary in (False, True):
        with connection.transaction():
            with connection.cursor(name="with values") as cursor:
                query = "SELECT n, n / 2.0::float8, ARRAY[n, NULL], 'r' || n FROM generate_series(1, %s) AS n WHERE n > %s"
                cursor.execute(query, (5, 2), binary=binary)
                assert cursor.fetchall() == [(n, n / 2, [n, None], f"r{n}") for n in (3, 4, 5)]
    try:
        execute("DECLARE c CURSOR FOR SELECT 1")
        raise AssertionError("it would end at once")
    except psycopg.errors.NoActiveSqlTransaction:
        pass
    with connection.transaction():
        execute("DECLARE held CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 5) AS n")
    assert execute("FETCH 2 FROM held").fetchall() == [(1,), (2,)]
    assert execute("MOVE 2 IN held").statusmessage == "MOVE 2"
    assert execute("FETCH ALL FROM held").fetchall() == [(5,)]
    execute("CLOSE held")


def cursors_of_the_server_go_back_and_forth():
    with connection.transaction():
        with connection.cursor(name="scrolled", scrollable=True) as cursor:
            cursor.execute("SELECT n FROM generate_series(1, 9) AS n")
            assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
            cursor.scroll(-2)
            assert cursor.fetchone() == (2,)
            cursor.scroll(8, mode="absolute")
            assert cursor.fetchall() == [(9,)]
        execute("DECLARE c SCROLL CURSOR FOR SELECT n FROM generate_series(1, 5) AS n")
        for movement, rows in [
            ("2", [1, 2]), ("PRIOR", [1]), ("LAST", [5]), ("NEXT", []), ("BACKWARD 2", [5, 4]), ("0", [4]),
            ("ABSOLUTE -2", [4]), ("RELATIVE -3", [1]), ("-1", []), ("FIRST", [1]), ("ABSOLUTE 9", []),
            ("BACKWARD ALL", [5, 4, 3, 2, 1]), ("ABSOLUTE 0", []), ("FORWARD ALL", [1, 2, 3, 4, 5]),
        ]:
            assert execute(f"FETCH {movement} FROM c").fetchall() == [(row,) for row in rows], movement
        assert execute("MOVE BACKWARD 2 IN c").statusmessage == "MOVE 2"
    try:
        with connection.transaction():
            execute("DECLARE c NO SCROLL CURSOR FOR SELECT n FROM generate_series(1, 5) AS n")
            execute("FETCH 2 FROM c")
            execute("FETCH PRIOR FROM c")
        raise AssertionError("it would go back")
    except psycopg.errors.ObjectNotInPrerequisiteState:
        pass


def plans_are_shown_with_what_they_came_to():
    lines = [row[0] for row in execute("EXPLAIN ANALYZE SELECT n FROM generate_series(1, 40) AS n WHERE n > 30").fetchall()]
    assert "rows=10 loops=1)" in lines[0] and "rows=40 loops=1)" in lines[1], lines
    assert lines[-1].startswith("Execution Time: "), lines
    assert "actual" not in one("EXPLAIN SELECT 1 FROM p")[0]


def statements_are_cancelled():
    endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
    threading.Timer(0.3, connection.cancel).start()
    for reason in ("user request", "statement timeout"):
        try:
            execute(endless)
            raise AssertionError("it does not end")
        except psycopg.errors.QueryCanceled as error:
            assert reason in str(error), error
        execute("SET statement_timeout = 200")
    try:
        execute("DO $$ BEGIN LOOP NULL; END LOOP; END $$")
        raise AssertionError("it does not end")
    except psycopg.errors.QueryCanceled:
        pass
    execute("RESET statement_timeout")
    assert one("SELECT 1") == (1,)


for check in (
    values_come_back_in_both_formats,
    arrays_go_both_ways_in_both_formats,
    errors_and_notices_say_what_they_are_about,
    copy_goes_both_ways_in_all_formats,
    a_copy_that_fails_leaves_nothing,
    a_pipeline_is_one_transaction,
    transactions_nest,
    cursors_of_the_server_are_read_in_parts,
    cursors_of_the_server_go_back_and_forth,
    plans_are_shown_with_what_they_came_to,
    statements_are_cancelled,
):
    check()
    print(f"psycopg: {check.__name__}: ok")
